"""Further examples of graphs that rules fuse, by the rule's name."""

from __future__ import annotations

from tests.engine.transformers.test_every_rule_by_example import Example

_CONV = "(float[1, 2, 2, 2] x) => (float[1, 2, 2, 2] y) <float[2, 2, 1, 1] w = {1, 2, 3, 4}"


def _written(rule: str, signature: str, nodes: str, opset: int = 21) -> tuple[str, Example]:
    return rule, Example(signature, nodes, "", opset)


OTHER_FORMS: dict[str, tuple[str, Example]] = {
    # --- convolutions and products ----------------------------------------------------------------
    "a sum behind a convolution": _written(
        "conv-affine-fusion",
        f"{_CONV}, float[1, 2, 1, 1] c = {{3, 4}}, float[2] b = {{1, 2}}>",
        "a = Conv(x, w, b) y = Add(c, a)",
    ),
    "a normalization behind a convolution with a bias": _written(
        "conv-batch-normalization-fusion",
        f"{_CONV}, float[2] s = {{1, 2}}, float[2] b = {{3, 4}}, float[2] v = {{1, 4}}>",
        "a = Conv(x, w, b) y = BatchNormalization <epsilon = 0.5> (a, s, b, s, v)",
    ),
    "a sum behind a normalization": _written(
        "batch-normalization-affine-fusion",
        "(float[1, 2, 2] x) => (float[1, 2, 2] y) <float[2] s = {1, 2}, float[2] b = {3, 4},"
        " float[2] v = {1, 4}, float c = {5}>",
        "a = BatchNormalization(x, s, b, b, v) y = Add(c, a)",
    ),
    "a padding of old": _written(
        "pad-fusion",
        "(float[1, 1, 2] x) => (float[1, 1, 4] y) <float[1, 1, 2] w = {1, 2}>",
        "a = Pad <pads = [0, 0, 1, 0, 0, 2]> (x) y = Conv <pads = [1, 0], strides = [2]> (a, w)",
        10,
    ),
    "a padding with a value": _written(
        "pad-fusion",
        "(float[1, 1, 2, 2] x) => (float[1, 1, 4, 3] y) <float[1, 1, 2, 2] w = {1, 2, 3, 4},"
        " int64[8] pads = {0, 0, 1, 0, 0, 0, 2, 2}, float zero = {0}>",
        "a = Pad(x, pads, zero) y = Conv(a, w)",
    ),
    "a sum of one before a product": _written(
        "matmul-add-fusion",
        "(float[N, 2] x) => (float[N, 2] y) <float[2, 2] w = {1, 2, 3, 4}, float[1, 2] b = {5, 6}>",
        "a = MatMul(x, w) y = Add(b, a)",
    ),
    # --- nodes that do nothing --------------------------------------------------------------------
    "a product with ones": _written(
        "neutral-element-elimination",
        "(float[2, 3] x) => (float[2, 3] y) <float[1, 3] one = {1, 1, 1}>",
        "a = Mul(one, x) y = Relu(a)",
    ),
    "a quotient by one": _written(
        "neutral-element-elimination",
        "(int32[2] x) => (int32[2] y) <int32[1] one = {1}>",
        "a = Div(x, one) y = Neg(a)",
    ),
    "a reshape behind a squeeze": _written(
        "reshape-fusion",
        "(float[2, 1, 6] x) => (float[4, 3] y) <int64[2] t = {4, -1}, int64[1] a = {1}>",
        "s = Squeeze(x, a) y = Reshape(s, t)",
    ),
    "a clip that leaves a bound out": _written(
        "constant-folding",
        "(float[2] x) => (float[2] y) <float[2] p = {1, 2}, float h = {1.5}>",
        'c = Clip(p, "", h) y = Add(x, c)',
    ),
    "equal nodes of equal constants": _written(
        "common-subexpression-elimination",
        "(float[2] x) => (float[2] y) <float[2] p = {1, 2}, float[2] r = {1, 2}>",
        "a, m = Dropout(x) b = Add(x, p) c = Add(x, r) d = LeakyRelu <alpha = 0.5> (b)"
        " e = LeakyRelu <alpha = 0.5> (c) y = Sub(d, e)",
    ),
    "one of two outputs is a list of sizes": _written(
        "known-elements-folding",
        "(float[n, 6] x) => (int64[1] y) <int64[2] parts = {1, 1}>",
        "s = Shape(x) a, b = Split <axis = 0> (s, parts) y = Neg(b)",
    ),
    # --- quantized values -------------------------------------------------------------------------
    "weights with a scale for each row": _written(
        "weight-dequantization",
        "(float[2, 2] x) => (float[2, 2] y) <float[2] s = {0.5, 0.25}, int8[2, 2] w = {1, 2, 3, 4}>",
        "f = DequantizeLinear <axis = 0> (w, s) y = MatMul(x, f)",
    ),
}  # fmt: skip
