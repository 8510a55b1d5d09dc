"""One small example of every rule and pass in the table of transformers: none is without.

It shows what the rule is for. What keeps a rule from its work, and its other forms, stand with the
rules of its kind.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from ortpkg.runtime.engine.transformers.order import TRANSFORMERS
from ortpkg.runtime.engine.transformers.rule_driver import RuleDriver
from ortpkg.runtime.engine.transformers.transform_context import GraphTransformer, TransformContext
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
    # --- quantized values -------------------------------------------------------------------------
    "dequantize-gather-fusion": Example(
        "(float[2] x) => (float[2, 2] y)"
        " <float s = {0.5}, int8 o = {3}, int8[3, 2] t = {1, 2, 3, 4, 5, 6}, int64[2] ids = {2, 0}>",
        "f = DequantizeLinear(t, s, o) y = Gather(f, ids)",
        "y_quantized__0 = Gather(t, ids) y = DequantizeLinear(y_quantized__0, s, o)",
    ),
    "weight-dequantization": Example(
        f"(float[2, 2] x) => (float[2, 2] y) <{_QDQ}, uint8[2, 2] w = {{1, 2, 3, 4}}>",
        "f = DequantizeLinear(w, s, z) y = MatMul(x, f)",
        "y = MatMul(x, f)",
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
