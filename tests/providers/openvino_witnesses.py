"""Models of ONNX's own operators that OpenVINO computes otherwise: name of the table's row → one.

A name with a comma is another model of the row before the comma.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

Witness = tuple[str, dict[str, Any]]

_RNG = np.random.default_rng(7)
_BIG = 5_000_000_000


def normal(*shape: int) -> Any:
    return _RNG.standard_normal(shape).astype(np.float32)


def integers(values: Iterable[int], element: str) -> Any:
    return np.array(list(values), element)


def unary(expression: str, element: str, values: Iterable[int]) -> Witness:
    return f"g ({element}[N] x) => ({element}[M] z) {{ z = {expression} }}", {
        "x": integers(values, element)
    }


def binary(expression: str, element: str, one: Iterable[int], other: Iterable[int]) -> Witness:
    text = f"g ({element}[N] x, {element}[N] y) => ({element}[N] z) {{ z = {expression} }}"
    return text, {"x": integers(one, element), "y": integers(other, element)}


def resize(attributes: str, *, scales: str = "", sizes: str = "") -> Witness:
    constant = f"float[4] s = {{{scales}}}" if scales else f"int64[{sizes.count(',') + 1}] s"
    constant += "" if scales else f" = {{{sizes}}}"
    slots = "x, , s" if scales else "x, , , s"
    text = f"""g (float[1,1,7,9] x) => (float[1,1,A,B] y) <{constant}>
    {{ y = Resize <{attributes}> ({slots}) }}"""
    return text, {"x": normal(1, 1, 7, 9)}


def recurrent(
    operator: str, gates: int, *, attributes: str = "", more: str = "", **feeds: Any
) -> Witness:
    names = {"lengths": "int32[2] lengths", "peepholes": "float[1,12] peepholes"}
    extra = "".join(f", {names[name]}" for name in feeds)
    w, r = constant("w", normal(1, gates, 5)), constant("r", normal(1, gates, 4))
    text = f"""g (float[T,N,5] x{extra}) => (float[A,B,C,D] y, float[E,F,G] h) <{w}, {r}>
    {{ y, h = {operator} <hidden_size = 4{attributes}> (x, w, r{more}) }}"""
    return text, {"x": normal(3, 2, 5), **feeds}


def pooled(nodes: str, batch: str = "N") -> Witness:
    text = f"""g (float[{batch},2,8] x) => (float y) <float[1,2] c = {{1.5, 4}}, float[2] d = {{1.5, 4}},
        float[1,2,1] k = {{1.5, 4}}, float two = {{2}}, int64[1] first = {{0}}, int64[1] middle = {{1}},
        float[8] eight = {{1, 2, 3, 4, 5, 6, 7, 8}}, int64[1] last = {{-1}}>
        {{ {nodes} }}"""
    return text, {"x": normal(6, 2, 8)}


def _activation(operator: str, **attributes: float) -> Witness:
    stated = ", ".join(f"{name} = {number}" for name, number in attributes.items())
    text = f"g (float[4] x) => (float[4] y) {{ y = {operator} <{stated}> (x) }}"
    return text, {"x": np.array([-2, -0.5, 0, 3], np.float32)}


def constant(name: str, array: Any) -> str:
    """An initializer of floats, in the words of a model's text."""
    sizes = ",".join(map(str, array.shape))
    return f"float[{sizes}] {name} = {{{', '.join(map(str, array.ravel()))}}}"


def reduction(operator: str, more: str, shape: tuple[int, ...]) -> Witness:
    sizes = ",".join(map(str, shape))
    text = f"""g (float[{sizes}] x) => (float[A,B] y) <int64[1] axes = {{1}}>
    {{ y = {operator} <keepdims = 1> (x{more}) }}"""
    return text, {"x": normal(*shape)}


def attention(attributes: str, keys: int, more: str = "", **feeds: Any) -> Witness:
    extra = "".join(
        f", float[{','.join(map(str, value.shape))}] {name}" for name, value in feeds.items()
    )
    text = f"""g (float[1,2,4,8] q, float[1,2,{keys},8] k, float[1,2,{keys},8] v{extra})
    => (float[1,2,4,8] y{", float[A,B,C,D] pk, float[A,B,C,D] pv" if feeds else ""}) {{
        y{", pk, pv" if feeds else ""} = Attention <{attributes}> (q, k, v{more})
    }}"""
    return text, {
        "q": normal(1, 2, 4, 8),
        "k": normal(1, 2, keys, 8),
        "v": normal(1, 2, keys, 8),
        **feeds,
    }


_BOXES = {
    "boxes": np.array([[[0, 0, 1, 1], [0, 0, 1, 0.5]]], np.float32),
    "scores": np.array([[[0.9, 0.8]]], np.float32),
    "most": np.array([3]),
    "threshold": np.array([0.5], np.float32),
}

#: The opset of a witness that is not of opset 21.
OPSETS: dict[str, int] = {
    "window of Attention": 25,
    "causal Attention with a past and a mask": 25,
    "columns of SpaceToDepth": 28,
}
ONNX_WITNESSES: dict[str, Witness] = {
    # integers
    "integers of 64 bits": unary("Identity(x)", "int64", [_BIG]),
    "integers of 64 bits, moved": unary("Concat <axis = 0> (x, x)", "int64", [_BIG]),
    "integers of 64 bits, unsigned": unary("Sign(x)", "uint64", [1 << 40]),
    "integers of 64 bits, as floats": (
        """g (int64[N] x) => (float[1,N] y) <int64[1] axes = {0}, float two = {2}> {
            u = Unsqueeze(x, axes) f = Cast <to = 1> (u) y = Mul(f, two)
        }""",
        {"x": np.array([_BIG])},
    ),
    "computing on integers, without a sign": (
        """g (uint32[N] x) => (uint32[N] a, float[N] b, float[N] c)
        { a = Identity(x) b = Cast <to = 1> (a) c = Cast <to = 1> (x) }""",
        {"x": integers([4_000_000_000, 7], "uint32")},
    ),
    "integers of 64 bits, in a body": (
        """g (int64 n, int64[1] x) => (int64[1] y) <bool yes = {1}, int64[1] more = {3000000000}> {
            y = Loop(n, yes, x) <body = b (int64 i, bool c, int64[1] s) => (bool d, int64[1] t) {
                d = Identity(c) t = Add(s, more)
            }>
        }""",
        {"n": np.array(3), "x": np.array([1])},
    ),
    "integers of 64 bits, that become indices by a remainder": (
        """g (int64[N] x) => (float[N] y) <float[4] table = {1, 2, 3, 4}, int64 three = {3}> {
            bucket = Mod(x, three) y = Gather(table, bucket)
        }""",
        {"x": np.array([_BIG, _BIG + 1])},
    ),
    "computing on integers": binary("Div(x, y)", "uint8", [7], [4]),
    "computing on integers, Add": binary("Add(x, y)", "uint8", [250], [10]),
    "computing on integers, Sub": binary("Sub(x, y)", "int8", [-120], [100]),
    "computing on integers, Mul": binary("Mul(x, y)", "int8", [100], [100]),
    "computing on integers, Mod": binary("Mod(x, y)", "int32", [777777777], [13]),
    "computing on integers, Max": binary("Max(x, y)", "uint32", [4_000_000_000], [1]),
    "computing on integers, Neg": unary("Neg(x)", "int8", [-128]),
    "computing on integers, Relu": unary("Relu(x)", "int32", [(1 << 30) + 1]),
    "computing on integers, Clip": (
        """g (int32[N] x) => (int32[N] y) <int32 low = {-1}, int32 high = {1073741823}>
        { y = Clip(x, low, high) }""",
        {"x": np.array([1 << 30], np.int32)},
    ),
    "computing on integers, ReduceSum": unary(
        "ReduceSum <keepdims = 1> (x)", "int32", [(1 << 30) + 1, 1]
    ),
    "computing on integers, compared": (
        "g (int32[N] x, int32[N] y) => (bool[N] z) { z = Equal(x, y) }",
        {"x": integers([1 << 24], "int32"), "y": integers([(1 << 24) + 1], "int32")},
    ),
    "computing on integers, as truth": (
        "g (uint32[N] x) => (bool[N] z) { z = Cast <to = 9> (x) }",
        {"x": integers([1 << 31], "uint32")},
    ),
    "floats of 64 bits": (
        "g (double[N] x, double[N] y) => (double[N] z) { z = Add(x, y) }",
        {"x": np.array([1e200, 1.0]), "y": np.array([1e200, 1e-12])},
    ),
    "floats of 64 bits, made": (
        "g (float[N] x) => (double[N] z) { z = Cast <to = 11> (x) }",
        {"x": np.array([np.inf, 1], np.float32)},
    ),
    # operators
    "window of Attention": attention(
        "is_causal = 1, left_window_size = 1, right_window_size = -1", 4
    ),
    "causal Attention with a past and a mask": attention(
        "is_causal = 1", 6, ", mask, past_k, past_v",
        mask=normal(4, 18), past_k=normal(1, 2, 12, 8), past_v=normal(1, 2, 12, 8),
    ),
    "padding of AveragePool": (
        """g (float[1,1,6,6] x) => (float[1,1,A,B] y) {
            y = AveragePool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1],
                ceil_mode = 1, count_include_pad = 1> (x)
        }""",
        {"x": normal(1, 1, 6, 6)},
    ),
    "BitShift": binary('BitShift <direction = "LEFT"> (x, y)', "uint8", [255], [1]),
    "computing on integers, constants without a sign": (
        """g (int64[N] i) => (uint32[N] y) <uint32[1] x = {4000000000}> { y = Gather(x, i) }""",
        {"i": np.array([0, 0])},
    ),
    "large integers of ConstantOfShape": (
        """g (int64[1] s) => (int64[N] y)
        { y = ConstantOfShape <value = int64[1] {1099511627776}> (s) }""",
        {"s": np.array([2])},
    ),
    "large integers of ConstantOfShape, without a sign": (
        """g (int64[1] s) => (uint32[N] y)
        { y = ConstantOfShape <value = uint32[1] {4000000000}> (s) }""",
        {"s": np.array([2])},
    ),
    "sizes of GatherElements": (
        """g (float[N,2] x, int64[K,L] i) => (float[K,L] y)
        { r = Relu(x) y = GatherElements <axis = 0> (r, i) }""",
        {"x": normal(5, 2), "i": np.array([[1], [4]])},
    ),
    "zeros of Reshape": (
        """g (float[A,B] x) => (float[C,D] y) <int64[2] s = {0, -1}>
        { r = Relu(x) y = Reshape <allowzero = 1> (r, s) }""",
        {"x": np.zeros((0, 0), np.float32)},
    ),
    "infinities of Shrink and ThresholdedRelu": (
        "g (float[2] x) => (float[2] y) { y = Shrink <lambd = 1.0> (x) }",
        {"x": np.array([-np.inf, np.inf], np.float32)},
    ),
    "infinities of Shrink and ThresholdedRelu, thresholded": (
        "g (float[2] x) => (float[2] y) { y = ThresholdedRelu(x) }",
        {"x": np.array([-np.inf, np.inf], np.float32)},
    ),
    "uneven parts of Split": (
        """g (float[N] x) => (float[A] a, float[B] b, float[C] c)
        { a, b, c = Split <num_outputs = 3> (x) }""",
        {"x": normal(7)},
    ),
    "DFT": (
        """g (float[1,8,1] x) => (float[A,B,C] y) <int64 axis = {1}>
        { y = DFT <onesided = 1> (x, , axis) }""",
        {"x": normal(1, 8, 1)},
    ),
    "DynamicQuantizeLinear": (
        "g (float[6] x) => (uint8[6] y, float s, uint8 z) { y, s, z = DynamicQuantizeLinear(x) }",
        {"x": np.array([0, 2, -3, -2.5, 1.34, 0.5], np.float32)},
    ),
    "ranks of If": (
        """g (bool c, float[1] x) => (float[] y) <float one = {1}> {
            z = If(c) <then_branch = t () => (float[1] a) { a = Exp(x) },
                       else_branch = e () => (float b) { b = Identity(one) }>
            y = Abs(z)
        }""",
        {"c": np.array(False), "x": normal(1)},
    ),
    "batch first": recurrent("LSTM", 16, attributes=", layout = 1"),
    "batch first, GRU": recurrent("GRU", 12, attributes=", layout = 1"),
    "batch first, RNN": recurrent("RNN", 4, attributes=", layout = 1"),
    "lengths of sequences": recurrent(
        "LSTM", 16, more=", , lengths", lengths=np.array([3, 2], np.int32)
    ),
    "lengths of sequences, GRU": recurrent(
        "GRU", 12, more=", , lengths", lengths=np.array([3, 2], np.int32)
    ),
    "lengths of sequences, RNN": recurrent(
        "RNN", 4, more=", , lengths", lengths=np.array([3, 2], np.int32)
    ),
    "peepholes of LSTM": recurrent(
        "LSTM", 16, more=", , , , , peepholes", peepholes=normal(1, 12)
    ),
    "coupled gates of LSTM": recurrent("LSTM", 16, attributes=", input_forget = 1"),
    "clip of 0": recurrent("GRU", 12, attributes=", clip = 0.0"),
    "clip of 0, LSTM": recurrent("LSTM", 16, attributes=", clip = 0.0"),
    "clip of 0, RNN": recurrent("RNN", 4, attributes=", clip = 0.0"),
    "zeros of Selu and HardSigmoid": _activation("Selu", alpha=0.0),
    "zeros of Selu and HardSigmoid, gamma": _activation("Selu", gamma=0.0),
    "zeros of Selu and HardSigmoid, HardSigmoid": _activation("HardSigmoid", alpha=0.0),
    "zeros of Selu and HardSigmoid, beta": _activation("HardSigmoid", beta=0.0),
    "alpha of Celu": _activation("Celu", alpha=0.0),
    "alpha of Celu, infinity": _activation("Celu", alpha=float("inf")),
    "alpha of Elu": _activation("Elu", alpha=float("-inf")),
    "C of Gemm": (
        """g (float[2,3] x, float[3,2] w, float[2] c) => (float[2,2] y)
        { y = Gemm <beta = 0.0> (x, w, c) }""",
        {"x": normal(2, 3), "w": normal(3, 2), "c": np.array([np.nan, np.inf], np.float32)},
    ),
    "Softplus": (
        "g (float[4] x) => (float[4] y) { y = Softplus(x) }",
        {"x": np.array([-28.8, -18.0, -12.0, 1.0], np.float32)},
    ),
    "LpPool": (
        """g (float[1,1,5,5] x) => (float[1,1,A,B] y)
        { y = LpPool <kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1> (x) }""",
        {"x": normal(1, 1, 5, 5)},
    ),
    "last window of MaxPool": (
        """g (float[1,1,2,2] x) => (float[1,1,A,B] y)
        { y = MaxPool <kernel_shape = [1, 1], strides = [2, 2], ceil_mode = 1> (x) }""",
        {"x": normal(1, 1, 2, 2)},
    ),
    "padding of MaxPool": (
        """g (float[1,1,2,2] x) => (float[1,1,A,B] y)
        { y = MaxPool <kernel_shape = [2, 2], pads = [0, 2, 0, 0]> (x) }""",
        {"x": normal(1, 1, 2, 2)},
    ),
    "Mish": (
        "g (float[4] x) => (float[4] y) <float large = {1e3}> { m = Mish(x) y = Mul(m, large) }",
        {"x": np.array([-23.0, -16.5, -13.0, 1.0], np.float32)},
    ),
    "Erf": (
        "g (float[3] x) => (float[3] y) <float large = {1e8}> { e = Erf(x) y = Mul(e, large) }",
        {"x": np.array([1e-8, 1e-5, 1.0], np.float32)},
    ),
    "Erf, and one": (
        """g (float[3] x) => (float[3] y, float[3] z) <float one = {1}, float large = {1e8}>
        { e = Erf(x) y = Add(e, one) z = Mul(e, large) }""",
        {"x": np.array([1e-8, 1e-5, 1.0], np.float32)},
    ),
    "roots by Pow": (
        "g (float[4] x) => (float[4] y) <float half = {0.5}> { y = Pow(x, half) }",
        {"x": np.array([-np.inf, -0.0, 4.0, 1.0], np.float32)},
    ),
    "roots by Pow, below": (
        """g (float[4] x) => (float[4] y) <float half = {-0.5}, float none = {-0.0}>
        { a = Add(x, none) y = Pow(a, half) }""",
        {"x": np.array([-np.inf, -0.0, 4.0, 1.0], np.float32)},
    ),
    "Mod of infinity": (
        "g (float[N] x, float[N] y) => (float[N] z) { z = Mod <fmod = 1> (x, y) }",
        {"x": np.array([2], np.float32), "y": np.array([np.inf], np.float32)},
    ),
    "NonMaxSuppression": (
        """g (float[1,2,4] boxes, float[1,1,2] scores, int64[1] most, float[1] threshold)
        => (int64[N,3] y) { y = NonMaxSuppression(boxes, scores, most, threshold) }""",
        _BOXES,
    ),
    "computed zero points": (
        """g (float[N] x, uint8 z) => (uint8[N] y) <float two = {2}>
        { y = QuantizeLinear(x, two, z) }""",
        {"x": np.array([-5, 3, 5], np.float32), "z": np.array(3, np.uint8)},
    ),
    "reductions of nothing": reduction("ReduceMax", ", axes", (2, 0)),
    "reductions of nothing, Min": reduction("ReduceMin", ", axes", (2, 0)),
    "reductions of nothing, Mean": reduction("ReduceMean", ", axes", (2, 0)),
    "maximum of infinities": (
        """g (float[N,3] x) => (bool[N,1] y) <int64[1] axes = {1}, float low = {-inf}>
        { m = ReduceMax(x, axes) y = Equal(m, low) }""",
        {"x": np.full((2, 3), -np.inf, np.float32)},
    ),
    "constants behind reductions": pooled("q = ReduceMax <keepdims = 0> (x, last) y = Add(q, c)"),
    "constants behind reductions, keepdims": pooled('q = ReduceMean (x, last) y = Mul(q, k)'),
    "constants behind reductions, activated": pooled('q = ReduceSum <keepdims = 0> (x, last) r = Sigmoid(q) y = Sub(c, r)'),
    "constants behind reductions, over the batch": pooled('q = ReduceMean (x, first) y = Add(q, k)'),
    "constants behind reductions, scaled": pooled('q = ReduceSum <keepdims = 0> (x, last) h = Mul(q, two) y = Sub(c, h)'),
    "constants behind reductions, pooled": pooled('q = GlobalAveragePool(x) y = Add(q, k)'),
    "constants behind reductions, largest": pooled('q = GlobalMaxPool(x) y = Div(q, k)'),
    "constants behind reductions, normalized": pooled('q = GlobalAveragePool(x) y = BatchNormalization(q, d, d, d, d)'),
    "constants behind reductions, summed": pooled('q = Einsum <equation = "ncl->nc"> (x) y = Add(q, c)'),
    "constants behind reductions, an axis more": pooled(
        "q = ReduceMean <keepdims = 0> (x, last) r = Unsqueeze(q, last) y = Add(r, k)", batch="6"
    ),
    "reductions without axes": (
        "g (float[2,3] x) => (float[2,3] y) { y = ReduceL1 <noop_with_empty_axes = 1> (x) }",
        {"x": normal(2, 3)},
    ),
    "antialiased Resize": resize('mode = "linear", antialias = 1', scales="1, 1, 0.5, 0.5"),
    "antialiased Resize, cubic": resize('mode = "cubic", antialias = 1', sizes="1, 1, 5, 4"),
    "excluded pixels of Resize": resize(
        'mode = "cubic", exclude_outside = 1', scales="1, 1, 2, 2"
    ),
    "aspect ratio of Resize": resize(
        'mode = "nearest", axes = [2, 3], keep_aspect_ratio_policy = "not_larger"', sizes="3, 8"
    ),
    "aligned corners of Resize": resize(
        'mode = "linear", coordinate_transformation_mode = "align_corners"',
        scales="1, 1, 0.6, 0.6",
    ),
    "nearest pixel of Resize": resize(
        'mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"',
        scales="1, 1, 0.6, 0.6",
    ),
    "nearest pixel of Resize, by sizes": (
        """g (float[1,1,21] x) => (float[1,1,11] y) <int64[3] s = {1, 1, 11}>
        { y = Resize <mode = "nearest", nearest_mode = "floor"> (x, , , s) }""",
        {"x": normal(1, 1, 21)},
    ),
    "nearest pixel of Resize, by an odd part": (
        """g (float[1,1,84] x) => (float[1,1,12] y) <int64[3] s = {1, 1, 12}>
        { y = Resize <mode = "nearest", nearest_mode = "floor"> (x, , , s) }""",
        {"x": normal(1, 1, 84)},
    ),
    "nearest pixel of Resize, with aligned corners": (
        """g (float[1,1,9] x) => (float[1,1,48] y) <int64[3] s = {1, 1, 48}>
        { y = Resize <mode = "nearest", nearest_mode = "floor",
            coordinate_transformation_mode = "align_corners"> (x, , , s) }""",
        {"x": normal(1, 1, 9)},
    ),
    "nearest pixel of Resize, of sizes that are fed": (
        """g (float[1,1,N] x, int64[3] s) => (float[A,B,C] y)
        { y = Resize <mode = "nearest", nearest_mode = "floor"> (x, , , s) }""",
        {"x": normal(1, 1, 21), "s": np.array([1, 1, 11])},
    ),
    "diagonals of Trilu": (
        """g (float[N,M] x) => (float[N,M] y) <int64 k = {9223372036854775807}>
        { y = Trilu(x, k) }""",
        {"x": normal(3, 4)},
    ),
    "maximum of RoiAlign": (
        """g (float[1,2,10,10] x, float[1,4] rois, int64[1] batch) => (float[1,2,A,B] y) {
            y = RoiAlign <mode = "max", output_height = 3, output_width = 3, sampling_ratio = 2>
                (x, rois, batch)
        }""",
        {
            "x": normal(1, 2, 10, 10),
            "rois": np.array([[0, 0, 9, 9]], np.float32),
            "batch": np.array([0]),
        },
    ),
    "columns of SpaceToDepth": (
        """g (float[1,2,4,4] x) => (float[1,8,2,2] y)
        { y = SpaceToDepth <blocksize = 2, mode = "CRD"> (x) }""",
        {"x": normal(1, 2, 4, 4)},
    ),
    "Tile by computed numbers": (
        "g (float[I,J,K,L] x) => (float[A,B,C,D] y) { s = Shape(x) y = Tile(x, s) }",
        {"x": normal(2, 3, 4, 5)},
    ),
    "ties of TopK": (
        """g (float[N,M] x) => (float[N,5] y, int64[N,5] i) <int64[1] k = {5}>
        { y, i = TopK(x, k) }""",
        {"x": _RNG.integers(0, 4, (6, 50)).astype(np.float32)},
    ),
}  # fmt: skip

_TABLE = np.arange(6, dtype=np.float32).reshape(3, 2)
#: Models that end the process, or read what is not theirs: the library is not asked here.
HAZARDS: dict[str, Witness] = {
    "indices that lie outside": (
        "g (float[3,2] x, int64[N,1] i) => (float[N,2] y) { y = GatherND(x, i) }",
        {"x": _TABLE, "i": np.array([[3]])},
    ),
    "indices that lie outside, ScatterND": (
        "g (float[3,2] x, int64[N,1] i, float[N,2] u) => (float[3,2] y) { y = ScatterND(x, i, u) }",
        {"x": _TABLE, "i": np.array([[100]]), "u": _TABLE[:1]},
    ),
    "indices that lie outside, ScatterElements": (
        """g (float[3,2] x, int64[1,2] i, float[1,2] u) => (float[3,2] y)
        { y = ScatterElements(x, i, u) }""",
        {"x": _TABLE, "i": np.array([[-4, 0]]), "u": _TABLE[:1]},
    ),
    "indices that lie outside, of a constant": (
        "g (float[3,2] x) => (float[1,2] y) <int64[1,1] i = {7}> { y = GatherND(x, i) }",
        {"x": _TABLE},
    ),
    "steps of Slice": (
        """g (float[5] x) => (float[N] y) <int64[1] from = {4}, int64[1] to = {-9}, int64[1] axis = {0},
            int64[1] step = {-9223372036854775808}> { y = Slice(x, from, to, axis, step) }""",
        {"x": normal(5)},
    ),
    "steps of Slice, of a Constant": (
        """g (float[5] x) => (float[N] y) <int64[1] from = {4}, int64[1] to = {-9}, int64[1] axis = {0}> {
            step = Constant <value_ints = [-2147483648]> () y = Slice(x, from, to, axis, step)
        }""",
        {"x": normal(5)},
    ),
    "steps of Slice, fed": (
        """g (float[5] x, int64[1] step) => (float[N] y)
        <int64[1] from = {4}, int64[1] to = {-9}, int64[1] axis = {0}>
        { y = Slice(x, from, to, axis, step) }""",
        {"x": normal(5), "step": np.array([-(1 << 40)])},
    ),
    "axes of Slice": (
        """g (float[3,2] x, int64[1] axis) => (float[A,B] y) <int64[1] from = {0}, int64[1] to = {1}>
        { r = Relu(x) y = Slice(r, from, to, axis) }""",
        {"x": _TABLE, "axis": np.array([4])},
    ),
}
#: Models that are an error, and that the library makes something of.
ERRORS: dict[str, Witness] = {
    "lengths of Split": (
        "g (float[5] x) => (float[A] y, float[B] z) <int64[2] s = {-1, 3}> { y, z = Split(x, s) }",
        {"x": normal(5)},
    ),
    "lengths of Split, computed": (
        "g (float[N] x, int64[2] s) => (float[A] y, float[B] z) { y, z = Split(x, s) }",
        {"x": normal(5), "s": np.array([-1, 3])},
    ),
    "bounds of Clip": (
        "g (float[3,2] x, float[K] k) => (float[3,2] y) { y = Clip(x, k) }",
        {"x": _TABLE, "k": normal(2)},
    ),
    "parameters of BatchNormalization": (
        """g (float[3,2] x, float[K] k, float[V] v) => (float[3,2] y)
        { y = BatchNormalization(x, k, k, v, k) }""",
        {"x": _TABLE, "k": np.ones(2, np.float32), "v": np.ones(1, np.float32)},
    ),
    "condition of Compress": (
        """g (float[3,2] x, bool[K] c) => (float[A,2] y)
        { r = Relu(x) y = Compress <axis = 0> (r, c) }""",
        {"x": _TABLE, "c": np.array([True, False, False, True])},
    ),
    "computed shape of Expand": (
        "g (float[3] x, int64[1] s) => (float[N] y) { r = Relu(x) y = Expand(r, s) }",
        {"x": normal(3), "s": np.array([4])},
    ),
    "step of Range": (
        "g (float a, float b, float c) => (float[N] y) { y = Range(a, b, c) }",
        {"a": np.float32(0), "b": np.float32(3), "c": np.float32(0)},
    ),
    "padding of ConvTranspose": (
        """g (float[1,1,H,W] x) => (float[1,1,A,B] y) <float[1,1,1,1] w = {2}>
        { y = ConvTranspose <pads = [1, 1, 1, 1]> (x, w) }""",
        {"x": normal(1, 1, 2, 5)},
    ),
    "indices made of floats": (
        """g (float[N] x) => (float[N] y) <float[3] table = {1, 2, 3}>
        { i = Cast <to = 7> (x) y = Gather(table, i) }""",
        {"x": np.array([1, np.nan], np.float32)},
    ),
    "indices made of floats, beyond 32 bits": (
        """g (float[N] x) => (float[N] y) <float[3] table = {1, 2, 3}>
        { i = Cast <to = 6> (x) y = Gather(table, i) }""",
        {"x": np.array([1, 1 << 32], np.float32)},
    ),
    "indices inside of a sub-graph": (
        """g (bool c, int64[N] i) => (float[N] y) <float[3] table = {1, 2, 3}> {
            y = If (c) <then_branch = t () => (float[N] a) { a = Gather(table, i) },
                        else_branch = e () => (float[N] b) { r = Gather(table, i) b = Exp(r) }>
        }""",
        {"c": np.array(True), "i": np.array([0, 3])},
    ),
    "integers of 64 bits, that wrap to an index": (
        """g (int64[N] i) => (float[N] y) <float[3] table = {1, 2, 3}, int64 one = {1}>
        { j = Add(i, one) y = Gather(table, j) }""",
        {"i": np.array([0, 1 << 32])},
    ),
}
