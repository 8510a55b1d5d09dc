"""One small example of every rule and pass in the table of transformers: none is without.

It shows what the rule is for. What keeps a rule from its work, and its other forms, stand with the
rules of its kind.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from ortpkg.engine.transformers.order import TRANSFORMERS
from ortpkg.engine.transformers.rule_driver import RuleDriver
from ortpkg.engine.transformers.transform_context import GraphTransformer, TransformContext
from tests.engine.transformers.transformation import Cleaned, assert_becomes, evaluate

#: By name: the rules of every driver, each in a driver of its own, and the passes.
RULES: dict[str, GraphTransformer] = {
    part.name: part
    for transformers in TRANSFORMERS.values()
    for transformer in transformers
    for part in (
        [RuleDriver(rule.name, [rule]) for rule in transformer.rules]
        if isinstance(transformer, RuleDriver)
        else [transformer]
    )
}
#: A provider with every kernel, and an evaluator of constants.
CONTEXT = TransformContext(kernel_exists=lambda _node, _types: True, evaluate=evaluate)


class Example(NamedTuple):
    """Inputs, outputs and constants of a graph; its nodes before the rule, and after it."""

    signature: str
    before: str
    after: str
    opset: int = 21


_CONV = "(float[1, 2, 2, 2] x) => (float[1, 2, 2, 2] y) <float[2, 2, 1, 1] w = {1, 2, 3, 4}"
_QDQ = "float s = {0.5}, uint8 z = {9}"
_ATTENTION = """<int64[4] heads = {2, -1, 2, 2}, int64[3] joined = {2, -1, 4}, float half = {0.5}"""
_ATTEND = """q4 = Reshape(q, heads) qt = Transpose <perm = [0, 2, 1, 3]> (q4)
             k4 = Reshape(k, heads) kt = Transpose <perm = [0, 2, 3, 1]> (k4)
             v4 = Reshape(v, heads) vt = Transpose <perm = [0, 2, 1, 3]> (v4)
             p = MatMul(qt, kt) s = Mul(p, half) w = Softmax(s) o = MatMul(w, vt)
             ot = Transpose <perm = [0, 2, 1, 3]> (o) y = Reshape(ot, joined)"""

EXAMPLES: dict[str, Example] = {
    # --- what is needed whatever the level --------------------------------------------------------
    "cast-like-to-cast": Example(
        "(float[2] x, int32[1] z) => (int32[2] y)",
        "y = CastLike(x, z)",
        "y = Cast <to = 6> (x)",
    ),
    "insert-cast": Example(
        "(float16[2] x) => (float16[2] y)",
        "y = Exp(x)",
        "x_float__0 = Cast <to = 1> (x) y_float__0 = Exp(x_float__0) y = Cast <to = 10> (y_float__0)",
    ),
    # --- nodes that do nothing --------------------------------------------------------------------
    "constant-node-to-initializer": Example(
        "(float[2] x) => (float[2] y)",
        "c = Constant <value_floats = [1.0, 2.0]> () y = Add(x, c)",
        "y = Add(x, c)",
    ),
    "identity-elimination": Example(
        "(float[2] x) => (float[2] y)", "a = Identity(x) y = Relu(a)", "y = Relu(x)"
    ),
    "carried-identity-elimination": Example(
        "(float[2] x, float[3, 2] r) => (float[2] y, float[3, 2] z)",
        """y, z = Scan <num_scan_inputs = 1, body = b (float[2] v, float[2] e) => (float[2] w, float[2] d)
           { w = Identity(v) d = Sub(e, w) }> (x, r)""",
        """y, z = Scan <num_scan_inputs = 1, body = b (float[2] v, float[2] e) => (float[2] v, float[2] d)
           { d = Sub(e, v) }> (x, r)""",
    ),
    "dropout-elimination": Example(
        "(float[2] x) => (float[2] y)", "a, m = Dropout(x) y = Relu(a)", "y = Relu(x)"
    ),
    "cast-elimination": Example(
        "(float[2] x) => (float[2] y)", "a = Cast <to = 1> (x) y = Relu(a)", "y = Relu(x)"
    ),
    "transpose-elimination": Example(
        "(float[2, 3] x) => (float[2, 3] y)",
        "a = Transpose <perm = [0, 1]> (x) y = Relu(a)",
        "y = Relu(x)",
    ),
    "transpose-fusion": Example(
        "(float[2, 3, 4] x) => (float[3, 4, 2] y)",
        "a = Transpose <perm = [2, 0, 1]> (x) y = Transpose <perm = [2, 0, 1]> (a)",
        "y = Transpose <perm = [1, 2, 0]> (x)",
    ),
    "reshape-elimination": Example(
        "(float[2, 3] x) => (float[2, 3] y) <int64[2] s = {2, -1}>",
        "a = Reshape(x, s) y = Relu(a)",
        "y = Relu(x)",
    ),
    "reshape-fusion": Example(
        "(float[2, 6] x) => (float[4, 3] y) <int64[1] s = {-1}, int64[2] t = {4, 3}>",
        "a = Reshape(x, s) y = Reshape(a, t)",
        "y = Reshape(x, t)",
    ),
    "neutral-element-elimination": Example(
        "(float[2] x) => (float[2] y) <float zero = {0}>",
        "a = Add(x, zero) y = Relu(a)",
        "y = Relu(x)",
    ),
    "shape-folding": Example(
        "(float[2, 6] x) => (int64[2] y)", "s = Shape(x) y = Neg(s)", "y = Neg(s__0)"
    ),
    "known-elements-folding": Example(
        "(float[n, 6] x) => (int64 y) <int64 i = {1}>",
        "s = Shape(x) a = Gather(s, i) y = Neg(a)",
        "y = Neg(a__0)",
    ),
    "known-if-inlining": Example(
        "(float[2] x) => (float[2] y) <bool c = {1}>",
        "y = If (c) <then_branch = b () => (p) { q = Neg(x) p = Exp(q) },"
        " else_branch = d () => (r) { r = Abs(x) }>",
        "q__0 = Neg(x) y = Exp(q__0)",
    ),
    "sum-to-add": Example("(float[2] x) => (float[2] y)", "y = Sum(x, x)", "y = Add(x, x)"),
    "constant-folding": Example(
        "(float[2] x) => (float[2] y) <float[2] p = {1, 2}>",
        "a = Neg(p) y = Add(x, a)",
        "y = Add(x, a)",
    ),
    "common-subexpression-elimination": Example(
        "(float[2] x) => (float[2] y)",
        "a = Relu(x) b = Relu(x) y = Add(a, b)",
        "a = Relu(x) y = Add(a, a)",
    ),
    "unused-removal": Example(
        "(float[2] x) => (float[2] y)", "a = Neg(x) y = Relu(x)", "y = Relu(x)"
    ),
    # --- what a convolution or a product takes along ----------------------------------------------
    "pad-fusion": Example(
        "(float[1, 1, 2] x) => (float[1, 1, 4] y)"
        " <float[1, 1, 2] w = {1, 2}, int64[6] pads = {0, 0, 1, 0, 0, 2}>",
        "a = Pad(x, pads) y = Conv(a, w)",
        'y = Conv <auto_pad = "NOTSET", pads = [1, 2]> (x, w)',
    ),
    "conv-batch-normalization-fusion": Example(
        f"{_CONV}, float[2] s = {{1, 2}}, float[2] b = {{3, 4}}, float[2] v = {{1, 4}}>",
        "a = Conv(x, w) y = BatchNormalization(a, s, b, b, v)",
        "y = Conv(x, w__0, w_bias__0)",
    ),
    "conv-affine-fusion": Example(
        f"{_CONV}, float[2, 1, 1] c = {{3, 4}}>",
        "a = Conv(x, w) y = Mul(a, c)",
        "y = Conv(x, w__0, w_bias__0)",
    ),
    "batch-normalization-affine-fusion": Example(
        "(float[1, 2, 2] x) => (float[1, 2, 2] y)"
        " <float[2] s = {1, 2}, float[2] b = {3, 4}, float[2] v = {1, 4}, float[2, 1] c = {5, 6}>",
        "a = BatchNormalization(x, s, b, b, v) y = Mul(a, c)",
        "y = BatchNormalization(x, s__0, b__0, b, v)",
    ),
    "matmul-add-fusion": Example(
        "(float[N, 2] x) => (float[N, 2] y) <float[2, 2] w = {1, 2, 3, 4}, float[2] b = {5, 6}>",
        "a = MatMul(x, w) y = Add(a, b)",
        "y = Gemm(x, w, b)",
    ),
    "matmul-scale-fusion": Example(
        "(float[2, 2] x, float[2, 2] v) => (float[2, 2] y) <float half = {0.5}>",
        "a = MatMul(x, v) y = Mul(a, half)",
        "y = com.microsoft.FusedMatMul <alpha = 0.5> (x, v)",
    ),
    "matmul-bias-fusion": Example(
        "(float[2, N, 2] x) => (float[2, N, 2] y)"
        " <float[2, 2] w = {1, 2, 3, 4}, float[2] b = {5, 6}>",
        "a = MatMul(x, w) y = Add(a, b)",
        "x_rows__0 = Reshape(x, x_rows__0_shape__0) y_rows__0 = Gemm(x_rows__0, w, b)"
        " y = Reshape(y_rows__0, y_shape__0)",
    ),
    "reshape-pair-elimination": Example(
        "(float[6, 4] x) => (float[6, 4] y) <int64[3] s = {2, 3, 4}, int64[2] t = {6, 4}>",
        "a = Reshape(x, s) b = Tanh(a) y = Reshape(b, t)",
        "y = Tanh(x)",
    ),
    "activation-fusion": Example(
        f"{_CONV}>",
        "a = Conv(x, w) y = Relu(a)",
        'y = com.microsoft.FusedConv <activation = "Relu"> (x, w)',
    ),
    "residual-fusion": Example(
        f"{_CONV}>",
        "a = Conv(x, w) y = Add(a, x)",
        'y = com.microsoft.FusedConv(x, w, "", x)',
    ),
    # --- functions written out --------------------------------------------------------------------
    "layer-normalization-fusion": Example(
        "(float[2, 2] x) => (float[2, 2] y) <int64[1] last = {-1}, float two = {2},"
        " float eps = {0.125}, float[2] w = {1, 2}, float[2] b = {3, 4}>",
        "m = ReduceMean(x, last) d = Sub(x, m) p = Pow(d, two) v = ReduceMean(p, last)"
        " e = Add(v, eps) s = Sqrt(e) n = Div(d, s) g1 = Mul(n, w) y = Add(g1, b)",
        "y = LayerNormalization <axis = -1, epsilon = 0.125> (x, w, b)",
    ),
    "gelu-fusion": Example(
        "(float[2] x) => (float[2] y) <float r = {1.4142135}, float one = {1}, float half = {0.5}>",
        "a = Div(x, r) b = Erf(a) c = Add(b, one) d = Mul(x, c) y = Mul(d, half)",
        "y = Gelu(x)",
    ),
    "quick-gelu-fusion": Example(
        "(float[2] x) => (float[2] y)",
        "a = Sigmoid(x) y = Mul(x, a)",
        "y = com.microsoft.QuickGelu <alpha = 1.0> (x)",
    ),
    "hard-swish-fusion": Example(
        "(float[2] x) => (float[2] y)",
        "a = HardSigmoid <alpha = 0.16666667, beta = 0.5> (x) y = Mul(x, a)",
        "y = HardSwish(x)",
    ),
    "attention-fusion": Example(
        "(float[2, 3, 4] q, float[2, 3, 4] k, float[2, 3, 4] v) => (float[2, 3, 4] y)"
        f" {_ATTENTION}>",
        _ATTEND,
        "y = com.microsoft.MultiHeadAttention <num_heads = 2, scale = 0.5> (q, k, v)",
    ),
    "packed-attention-fusion": Example(
        "(float[2, 3, 4] x) => (float[2, 3, 4] y)"
        " <float[4, 12] w = {" + ", ".join("12" * 24) + "}, float[12] b = {" + ", ".join("1" * 12) + "}>",
        "a = MatMul(x, w) c = Add(a, b) q, k, v = Split <axis = -1, num_outputs = 3> (c)"
        " y = com.microsoft.MultiHeadAttention <num_heads = 2, scale = 0.5> (q, k, v)",
        "y = com.microsoft.Attention <num_heads = 2, qkv_hidden_sizes = [4, 4, 4], scale = 0.5>"
        " (x, w, b)",
    ),
    "bias-gelu-fusion": Example(
        "(float[2, 3] x) => (float[2, 3] y) <float[3] b = {1, 2, 3}>",
        "a = Add(x, b) y = Gelu(a)",
        "y = com.microsoft.BiasGelu(x, b)",
    ),
    "skip-layer-normalization-fusion": Example(
        "(float[2, 3, 2] x, float[2, 3, 2] v) => (float[2, 3, 2] y) <float[2] w = {1, 2}>",
        "s = Add(x, v) y = LayerNormalization <epsilon = 0.5> (s, w)",
        "y = com.microsoft.SkipLayerNormalization <epsilon = 0.5> (x, v, w)",
    ),
    # --- quantized values -------------------------------------------------------------------------
    "qdq-activation-elimination": Example(
        "(float[2] x) => (uint8[2] y) <float s = {0.5}, uint8 z = {0}>",
        "a = Relu(x) y = QuantizeLinear(a, s, z)",
        "y = QuantizeLinear(x, s, z)",
    ),
    "qdq-pair-elimination": Example(
        f"(uint8[2] x) => (uint8[2] y) <{_QDQ}>",
        "f = DequantizeLinear(x, s, z) q = QuantizeLinear(f, s, z) y = Max(q, x)",
        "y = Max(x, x)",
    ),
    "qdq-move": Example(
        f"(uint8[2, 3] x) => (uint8[3, 2] y) <{_QDQ}>",
        "f = DequantizeLinear(x, s, z) t = Transpose(f) y = QuantizeLinear(t, s, z)",
        "y = Transpose(x)",
    ),
    "qdq-conv-fusion": Example(
        f"(uint8[1, 1, 4] x) => (uint8[1, 1, 3] y) <{_QDQ}, int8[1, 1, 2] w = {{1, 2}}, int8 o = {{0}}>",
        "f = DequantizeLinear(x, s, z) v = DequantizeLinear(w, s, o) c = Conv(f, v)"
        " y = QuantizeLinear(c, s, z)",
        "y = QLinearConv(x, s, z, w, s, o, s, z)",
    ),
    "qdq-matmul-fusion": Example(
        f"(uint8[2, 2] x) => (uint8[2, 2] y) <{_QDQ}, int8[2, 2] w = {{1, 2, 3, 4}}, int8 o = {{0}}>",
        "f = DequantizeLinear(x, s, z) v = DequantizeLinear(w, s, o) m = MatMul(f, v)"
        " y = QuantizeLinear(m, s, z)",
        "y = QLinearMatMul(x, s, z, w, s, o, s, z)",
    ),
    "qdq-elementwise-fusion": Example(
        f"(uint8[2] x, uint8[2] v) => (uint8[2] y) <{_QDQ}>",
        "f = DequantizeLinear(x, s, z) h = DequantizeLinear(v, s, z) m = Add(f, h)"
        " y = QuantizeLinear(m, s, z)",
        "y = com.microsoft.QLinearAdd(x, s, z, v, s, z, s, z)",
    ),
    "dequantize-gather-fusion": Example(
        "(float[2] x) => (float[2, 2] y)"
        " <float s = {0.5}, int8 o = {3}, int8[3, 2] t = {1, 2, 3, 4, 5, 6}, int64[2] ids = {2, 0}>",
        "f = DequantizeLinear(t, s, o) y = Gather(f, ids)",
        "y_quantized__0 = Gather(t, ids) y = DequantizeLinear(y_quantized__0, s, o)",
    ),
    "dynamic-quantize-matmul-fusion": Example(
        "(float[2, 2] x) => (float[2, 2] y)"
        " <float s = {0.5}, int8 o = {3}, int8[2, 2] w = {1, 2, 3, 4}>",
        "q, qs, qz = DynamicQuantizeLinear(x) i = MatMulInteger(q, w, qz, o) c = Cast <to = 1> (i)"
        " t = Mul(qs, s) y = Mul(c, t)",
        "y = com.microsoft.DynamicQuantizeMatMul(x, w, s, o)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RULES)
def test_every_rule_turns_its_example_into_what_computes_the_same(name: str) -> None:
    assert name in EXAMPLES, f"{name} is in the table of transformers and has no example here"
    example, rule = EXAMPLES[name], Cleaned(RULES[name])

    assert_becomes(
        rule,
        before=f"g {example.signature} {{ {example.before} }}",
        after=f"g {example.signature} {{ {example.after} }}",
        context=CONTEXT,
    )

    assert rule.changes


def test_every_example_is_of_a_rule() -> None:
    assert EXAMPLES.keys() <= RULES.keys()
