"""Further examples of graphs that rules fuse, by the rule's name."""

from __future__ import annotations

from tests.engine.transformers.test_every_rule_by_example import EXAMPLES, Example

_SHAPES = "int64[4] heads = {2, -1, 2, 2}, int64[3] joined = {2, -1, 4}, float half = {0.5}"
_FACTORS = "(float[2, 3, 4] q, float[2, 3, 4] k, float[2, 3, 4] v"
_SPLIT = """q4 = Reshape(q, heads) qt = Transpose <perm = [0, 2, 1, 3]> (q4)
            k4 = Reshape(k, heads) kt = Transpose <perm = [0, 2, 3, 1]> (k4)
            v4 = Reshape(v, heads) vt = Transpose <perm = [0, 2, 1, 3]> (v4)"""
_JOIN = "ot = Transpose <perm = [0, 2, 1, 3]> (o) y = Reshape(ot, joined)"
_WEIGHTS = "float[4, 4] wq = {1, 0, 2, 0, 0, 1, 0, 2, 1, 1, 0, 0, 0, 2, 0, 1}"
_HEADS = "<num_heads = 2, scale = 0.5>"
_NORM = (
    "(float[2, 2] x) => (float[2, 2] y) <int64[1] last = {-1}, float two = {2}, float eps = {0.125}"
)
_QDQ = "float s = {0.5}, uint8 z = {9}"
_GEMM = f"(uint8[2, 2] x) => (uint8[2, 2] y) <{_QDQ}, int8[2, 2] w = {{1, 2, 3, 4}}, int8 o = {{0}}"
_DEQUANTIZED = "f = DequantizeLinear(x, s, z) v = DequantizeLinear(w, s, o)"
_CONV = "(float[1, 2, 2, 2] x) => (float[1, 2, 2, 2] y) <float[2, 2, 1, 1] w = {1, 2, 3, 4}"
_QCONV = (
    f"(uint8[1, 2, 3] x) => (uint8[1, 2, 3] y) <{_QDQ}, int8[2, 2, 1] w = {{1, 2, 3, 4}},"
    " float[2] t = {0.5, 0.25}, int8[2] o = {0, 0}, float[2] b = {3, 7}"
)


def _written(rule: str, signature: str, nodes: str, opset: int = 21) -> tuple[str, Example]:
    return rule, Example(signature, nodes, "", opset)


def _of_opset(rule: str, opset: int) -> tuple[str, Example]:
    return rule, EXAMPLES[rule]._replace(opset=opset)


OTHER_FORMS: dict[str, tuple[str, Example]] = {
    # --- attention --------------------------------------------------------------------------------
    "attention with a mask": _written(
        "attention-fusion",
        f"{_FACTORS}, float[2, 1, 3, 3] m) => (float[2, 3, 4] y) <{_SHAPES}>",
        f"{_SPLIT} p = MatMul(qt, kt) s = Div(p, half) a = Add(s, m) w = Softmax(a)"
        f" o = MatMul(w, vt) {_JOIN}",
    ),
    "attention whose query and key are scaled": _written(
        "attention-fusion",
        f"{_FACTORS}) => (float[2, 3, 4] y) <{_SHAPES}>",
        f"""qs = Mul(q, half) q4 = Reshape(qs, heads) qt = Transpose <perm = [0, 2, 1, 3]> (q4)
            k4 = Reshape(k, heads) kh = Transpose <perm = [0, 2, 1, 3]> (k4) ks = Mul(half, kh)
            kt = Transpose <perm = [0, 1, 3, 2]> (ks)
            v4 = Reshape(v, heads) vt = Transpose <perm = [0, 2, 1, 3]> (v4)
            p = MatMul(qt, kt) w = Softmax <axis = 3> (p) o = MatMul(w, vt) {_JOIN}""",
    ),
    "attention whose heads stay apart": _written(
        "attention-fusion",
        f"{_FACTORS}) => (float[6, 4] y) <{_SHAPES}, int64[2] rows = {{6, 4}}>",
        f"{_SPLIT} p = MatMul(qt, kt) s = Mul(p, half) w = Softmax(s) o = MatMul(w, vt)"
        " ot = Transpose <perm = [0, 2, 1, 3]> (o) y = Reshape(ot, rows)",
    ),
    "attention of three projections": _written(
        "packed-attention-fusion",
        f"(float[2, 3, 4] x) => (float[2, 3, 4] y) <{_WEIGHTS}, float[4] b = {{1, 2, 3, 4}}>",
        f"""q = MatMul(x, wq) c = MatMul(x, wq) k = Add(c, b) v = MatMul(x, wq)
            y = com.microsoft.MultiHeadAttention {_HEADS} (q, k, v)""",
    ),
    "attention of a split projection without a bias": _written(
        "packed-attention-fusion",
        "(float[2, 3, 4] x, float[2, 1, 3, 3] m) => (float[2, 3, 4] y)"
        " <float[4, 12] w = {" + ", ".join("12" * 24) + "}>",
        "a = MatMul(x, w) q, k, v = Split <axis = 2, num_outputs = 3> (a)"
        f' y = com.microsoft.MultiHeadAttention {_HEADS} (q, k, v, "", "", m)',
    ),
    "attention of a split Gemm": _written(
        "packed-attention-fusion",
        "(float[2, 3, 4] x) => (float[2, 3, 4] y) <float[4, 12] w = {"
        + ", ".join("12" * 24)
        + "}, float[12] b = {" + ", ".join("12" * 6)
        + "}, int64[2] rows = {-1, 4}, int64[3] back = {2, 3, 12}>",
        "r = Reshape(x, rows) g = Gemm(r, w, b) a = Reshape(g, back)"
        " q, k, v = Split <axis = 2, num_outputs = 3> (a)"
        f" y = com.microsoft.MultiHeadAttention {_HEADS} (q, k, v)",
    ),
    # --- normalizations ---------------------------------------------------------------------------
    "a root mean square": _written(
        "layer-normalization-fusion",
        f"{_NORM}, float[2] w = {{1, 2}}>",
        "p = Mul(x, x) v = ReduceMean(p, last) e = Add(v, eps) s = Sqrt(e) r = Reciprocal(s)"
        " n = Mul(x, r) y = Mul(w, n)",
        23,
    ),
    "a normalization by a power": _written(
        "layer-normalization-fusion",
        f"{_NORM}, float power = {{-0.5}}>",
        "m = ReduceMean(x, last) d = Sub(x, m) p = Pow(d, two) v = ReduceMean(p, last)"
        " e = Add(eps, v) r = Pow(e, power) y = Mul(r, d)",
    ),
    "a normalization of old": _written(
        "layer-normalization-fusion",
        "(float[2, 2] x) => (float[2, 2] y) <float one = {1}, float two = {2}, float eps = {0.125},"
        " float[1, 2] w = {1, 2}>",
        "m = ReduceMean <axes = [1]> (x) d = Sub(x, m) p = Pow(d, two)"
        " v = ReduceMean <axes = [-1]> (p) e = Add(v, eps) s = Sqrt(e) r = Div(one, s)"
        " n = Mul(d, r) y = Mul(n, w)",
        17,
    ),
    "a biased sum before a normalization": _written(
        "skip-layer-normalization-fusion",
        "(float[2, 3, 2] x, float[2, 3, 2] v) => (float[2, 3, 2] y)"
        " <float[2] w = {1, 2}, float[2] b = {3, 5}>",
        "i = Add(x, b) s = Add(v, i) y = LayerNormalization <epsilon = 0.5> (s, w, b)",
    ),
    "a biased sum before a root mean square": _written(
        "skip-layer-normalization-fusion",
        "(float[3, 2] x, float[3, 2] v) => (float[3, 2] y)"
        " <float[2] w = {1, 2}, float[2] b = {3, 5}>",
        "i = Add(b, x) s = Add(i, v) y = RMSNormalization <epsilon = 0.5> (s, w)",
        23,
    ),
    # --- activations ------------------------------------------------------------------------------
    "a gelu by tanh": _written(
        "gelu-fusion",
        "(float[2] x) => (float[2] y) <float c = {0.044715}, float r = {0.7978846},"
        " float one = {1}, float half = {0.5}, float three = {3}>",
        "p = Pow(x, three) q = Mul(p, c) a = Add(x, q) b = Mul(a, r) t = Tanh(b) d = Add(t, one)"
        " h = Mul(x, half) y = Mul(h, d)",
    ),
    "a gelu by a negative": _written(
        "gelu-fusion",
        "(float[2] x) => (float[2] y) <float r = {0.70710678}, float half = {0.5}>",
        "a = Mul(x, r) b = Erf(a) n = Neg(b) c = Mul(n, x) d = Sub(x, c) y = Mul(d, half)",
    ),
    "a hard swish by a clip": _written(
        "hard-swish-fusion",
        "(float[2] x) => (float[2] y) <float three = {3}, float zero = {0}, float six = {6}>",
        "a = Add(x, three) b = Clip(a, zero, six) c = Mul(x, b) y = Div(c, six)",
    ),
    "a swish of a scaled value": _written(
        "quick-gelu-fusion",
        "(float[2] x) => (float[2] y) <float c = {1.5}>",
        "a = Mul(x, c) b = Sigmoid(a) y = Mul(b, x)",
        24,
    ),
    "a bias before a gelu by tanh": _written(
        "bias-gelu-fusion",
        "(float[2, 3] x) => (float[2, 3] y) <float[3] b = {1, 2, 3}>",
        'a = Add(b, x) y = Gelu <approximate = "tanh"> (a)',
    ),
    "an activation of a Gemm": _written(
        "activation-fusion",
        "(float[2, 2] x) => (float[2, 2] y) <float[2, 2] w = {1, 2, 3, 4}>",
        "a = Gemm(x, w) y = LeakyRelu <alpha = 0.25> (a)",
    ),
    "a clip of a residual": _written(
        "activation-fusion",
        f"{_CONV}, float low = {{-1}}, float high = {{2}}, float[2] b = {{1, 2}}>",
        "c = Conv(x, w, b) a = Add(x, c) y = Clip(a, low, high)",
    ),
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
    "a product divided": _written(
        "matmul-scale-fusion",
        "(float[2, 2] x, float[2, 2] v) => (float[2, 2] y) <float four = {4}, float[1] two = {2}>",
        "h = Mul(x, two) w = Div(v, four) a = MatMul(h, w) y = Div(a, four)",
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
    "a clip before codes": _written(
        "qdq-activation-elimination",
        "(float[2] x) => (int8[2] y) <float s = {0.5}, int8 z = {3}, float low = {-66},"
        " float high = {63}>",
        "a = Clip(x, low, high) y = QuantizeLinear(a, s, z)",
    ),
    "codes without zero points": _written(
        "qdq-pair-elimination",
        "(uint8[2] x) => (uint8[2] y) <float s = {0.5}>",
        "f = DequantizeLinear(x, s) q = QuantizeLinear(f, s) y = Max(q, x)",
    ),
    "codes that a pool picks": _written(
        "qdq-move",
        f"(uint8[1, 1, 4] x) => (uint8[1, 1, 3] y) <{_QDQ}>",
        "f = DequantizeLinear(x, s, z) t = MaxPool <kernel_shape = [2]> (f)"
        " y = QuantizeLinear(t, s, z)",
    ),
    "a convolution of channels with scales": _written(
        "qdq-conv-fusion",
        f"{_QCONV}>",
        "f = DequantizeLinear(x, s, z) v = DequantizeLinear <axis = 0> (w, t, o)"
        " c = Conv(f, v, b) y = QuantizeLinear(c, s, z)",
    ),
    "a convolution with a bias of integers": _written(
        "qdq-conv-fusion",
        f"{_QCONV}, int32[2] steps = {{40, -30}}, float[2] unit = {{0.25, 0.125}}>",
        "f = DequantizeLinear(x, s, z) v = DequantizeLinear <axis = 0> (w, t, o)"
        " h = DequantizeLinear <axis = 0> (steps, unit) c = Conv(f, v, h)"
        " y = QuantizeLinear(c, s, z)",
    ),
    "a product of codes": _written(
        "qdq-matmul-fusion",
        f"(uint8[2, 2] x) => (float[2, 2] y) <{_QDQ}, int8[2, 2] w = {{1, 2, 3, 4}}, int8 o = {{0}}>",
        f"{_DEQUANTIZED} y = MatMul(f, v)",
    ),
    "a product of codes with scales of columns": _written(
        "qdq-matmul-fusion",
        f"{_GEMM}, float[2] t = {{0.5, 0.25}}, int8[2] p = {{0, 1}}>",
        "f = DequantizeLinear(x, s, z) v = DequantizeLinear <axis = 1> (w, t, p) m = MatMul(f, v)"
        " y = QuantizeLinear(m, s, z)",
    ),
    "a Gemm of codes": _written(
        "qdq-matmul-fusion",
        f"{_GEMM}, float[2] b = {{3, 7}}>",
        f"{_DEQUANTIZED} m = Gemm <transB = 1> (f, v, b) y = QuantizeLinear(m, s, z)",
    ),
    "a Gemm of codes and scales of rows": _written(
        "qdq-matmul-fusion",
        f"{_GEMM}, float[2] t = {{0.5, 0.25}}, int8[2] p = {{0, 0}}>",
        "f = DequantizeLinear(x, s, z) v = DequantizeLinear <axis = 1> (w, t, p)"
        " m = Gemm(f, v) y = QuantizeLinear(m, s, z)",
    ),
    "codes of a softmax": _written(
        "qdq-elementwise-fusion",
        f"(uint8[2, 3] x) => (uint8[2, 3] y) <{_QDQ}, float t = {{0.004}}>",
        "f = DequantizeLinear(x, s, z) m = Softmax(f) y = QuantizeLinear(m, t, z)",
    ),
    "codes side by side": _written(
        "qdq-elementwise-fusion",
        f"(uint8[2, 3] x, uint8[2, 3] v) => (uint8[2, 6] y) <{_QDQ}, float t = {{0.75}}>",
        "f = DequantizeLinear(x, s, z) h = DequantizeLinear(v, t, z) m = Concat <axis = 1> (f, h)"
        " y = QuantizeLinear(m, s, z)",
    ),
    "a pair of codes that states types": _of_opset("qdq-pair-elimination", 24),
    "a product of codes that states types": _written(
        "qdq-matmul-fusion",
        f"(uint8[2, 2] x) => (float[2, 2] y) <{_QDQ}, int8[2, 2] w = {{1, 2, 3, 4}}, int8 o = {{0}}>",
        f"{_DEQUANTIZED} y = MatMul(f, v)",
        24,
    ),
    "a dynamic product with a bias": _written(
        "dynamic-quantize-matmul-fusion",
        "(float[2, 2] x) => (float[2, 2] y) <float[2] s = {0.5, 0.25}, int8[2, 2] w = {1, 2, 3, 4},"
        " float[2] b = {5, 6}>",
        "q, qs, qz = DynamicQuantizeLinear(x) i = MatMulInteger(q, w, qz) c = Cast <to = 1> (i)"
        " t = Mul(s, qs) m = Mul(t, c) y = Add(b, m)",
    ),
    "a dynamic product whose codes are read twice": _written(
        "dynamic-quantize-matmul-fusion",
        "(float[2, 2] x) => (float[2, 2] y, uint8[2, 2] q) <float s = {0.5}, int8 o = {3},"
        " int8[2, 2] w = {1, 2, 3, 4}>",
        "q, qs, qz = DynamicQuantizeLinear(x) i = MatMulInteger(q, w, qz, o) c = Cast <to = 1> (i)"
        " t = Mul(qs, s) y = Mul(c, t)",
    ),
}  # fmt: skip
