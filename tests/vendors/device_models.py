"""Small models of many kinds, with feeds, for execution providers on devices.

Each is what a model of its kind consists of, as small as it can be: weights are drawn from one
seed, so that every run has the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx
import onnx.parser

Array = npt.NDArray[Any]
Weights = Mapping[str, Array]

_HEADER = '<ir_version: 10, opset_import: ["" : 20, "com.microsoft" : 1]>'


class DeviceModel(NamedTuple):
    """A model with feeds.

    Attributes:
        model: the model.
        feeds: input → array.
        tolerance: how far an output may be off on a device, as a share of its largest element.
    """

    model: onnx.ModelProto
    feeds: Mapping[str, Array]
    tolerance: float = 1e-5


def largest_error(outputs: Sequence[Any], expected: Sequence[Any]) -> float:
    """Largest difference, as a share of the largest element of its output; inf for shapes."""
    errors = [0.0]
    for array, right in zip(outputs, expected, strict=True):
        if array.shape != right.shape or array.dtype != right.dtype:
            return float("inf")
        difference = np.abs(array.astype(np.float64) - right.astype(np.float64))
        scale = max(float(np.abs(right.astype(np.float64)).max(initial=0)), 1e-9)
        errors.append(float(difference.max(initial=0)) / scale)
    return max(errors)


def _rng() -> np.random.Generator:
    return np.random.default_rng(20)


def _normal(*shape: int, scale: float = 0.2) -> Array:
    return (_rng().standard_normal(shape) * scale).astype(np.float32)


def _model(text: str, weights: Weights) -> onnx.ModelProto:
    model: onnx.ModelProto = onnx.parser.parse_model(f"{_HEADER} {text}")
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(array, name) for name, array in weights.items()
    )
    onnx.checker.check_model(model)
    return model


def _convolutional() -> DeviceModel:
    """Convolutions with strides and groups, batch normalization, pooling, a classifier."""
    text = """g (float[N, 3, 16, 16] x) => (float[N, 5] y) {
        a = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(x, w1, b1)
        b = BatchNormalization(a, scale, shift, mean, var)
        c = Relu(b)
        d = Conv<pads = [1, 1, 1, 1], group = 8>(c, w2)
        e = Clip(d, zero, six)
        f = Conv(e, w3)
        h = Add(f, c)
        p = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(h)
        q = GlobalAveragePool(p)
        r = Flatten(q)
        s = Gemm(r, w4, b4)
        y = Softmax<axis = 1>(s) }"""
    weights: Weights = {
        "w1": _normal(8, 3, 3, 3),
        "b1": _normal(8),
        "scale": 1 + _normal(8),
        "shift": _normal(8),
        "mean": _normal(8),
        "var": np.abs(_normal(8)) + 1,
        "w2": _normal(8, 1, 3, 3),
        "zero": np.array(0, np.float32),
        "six": np.array(6, np.float32),
        "w3": _normal(8, 8, 1, 1),
        "w4": _normal(8, 5),
        "b4": _normal(5),
    }
    return DeviceModel(_model(text, weights), {"x": _normal(2, 3, 16, 16, scale=1)})


def _segmentation() -> DeviceModel:
    """Down and up again: transposed convolution, resizing, concatenation of what skips."""
    text = """g (float[1, 3, 16, 16] x) => (float[1, 2, 16, 16] y) {
        a = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(x, w1)
        b = LeakyRelu<alpha = 0.1>(a)
        c = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(b, w2)
        d = Sigmoid(c)
        e = ConvTranspose<strides = [2, 2]>(d, w3)
        f = Concat<axis = 1>(b, e)
        h = Resize<mode = "linear">(f, , scales)
        y = Conv<pads = [1, 1, 1, 1]>(h, w4) }"""
    weights: Weights = {
        "w1": _normal(4, 3, 3, 3),
        "w2": _normal(6, 4, 3, 3),
        "w3": _normal(6, 4, 2, 2),
        "scales": np.array([1, 1, 2, 2], np.float32),
        "w4": _normal(2, 8, 3, 3),
    }
    return DeviceModel(_model(text, weights), {"x": _normal(1, 3, 16, 16, scale=1)})


def _attention() -> DeviceModel:
    """One encoder layer: heads, softmax with a mask, layer normalization, GELU."""
    text = """g (float[B, T, 32] x, float[B, 1, 1, T] mask) => (float[B, T, 32] y) {
        q0 = MatMul(x, wq) k0 = MatMul(x, wk) v0 = MatMul(x, wv)
        q1 = Reshape(q0, heads) k1 = Reshape(k0, heads) v1 = Reshape(v0, heads)
        q = Transpose<perm = [0, 2, 1, 3]>(q1)
        k = Transpose<perm = [0, 2, 3, 1]>(k1)
        v = Transpose<perm = [0, 2, 1, 3]>(v1)
        scores = MatMul(q, k)
        scaled = Mul(scores, scale)
        masked = Add(scaled, mask)
        shares = Softmax<axis = -1>(masked)
        context = MatMul(shares, v)
        back = Transpose<perm = [0, 2, 1, 3]>(context)
        joined = Reshape(back, model)
        projected = MatMul(joined, wo)
        sum1 = Add(projected, x)
        norm1 = LayerNormalization<axis = -1, epsilon = 0.00001>(sum1, gain, shift)
        wide = MatMul(norm1, w1)
        bent = Gelu(wide)
        narrow = MatMul(bent, w2)
        sum2 = Add(narrow, norm1)
        y = LayerNormalization<axis = -1, epsilon = 0.00001>(sum2, gain, shift) }"""
    weights: Weights = {
        **{name: _normal(32, 32) for name in ("wq", "wk", "wv", "wo")},
        "w1": _normal(32, 64),
        "w2": _normal(64, 32),
        "heads": np.array([0, 0, 4, 8], np.int64),
        "model": np.array([0, 0, 32], np.int64),
        "scale": np.array(8**-0.5, np.float32),
        "gain": 1 + _normal(32),
        "shift": _normal(32),
    }
    mask = np.zeros((2, 1, 1, 6), np.float32)
    mask[1, :, :, 4:] = -1e4
    feeds = {"x": _normal(2, 6, 32, scale=1), "mask": mask}
    return DeviceModel(_model(text, weights), feeds, tolerance=1e-4)


def _text_embedding() -> DeviceModel:
    """Token numbers to unit vectors: Gather, the mean of the tokens that the mask leaves."""
    text = """g (int64[B, T] ids, int64[B, T] mask) => (float[B, 16] embedding) {
        tokens = Gather(table, ids)
        wide = MatMul(tokens, w)
        bent = Tanh(wide)
        kept0 = Cast<to = 1>(mask)
        kept = Unsqueeze(kept0, last)
        chosen = Mul(bent, kept)
        sum = ReduceSum<keepdims = 0>(chosen, one)
        count = ReduceSum<keepdims = 0>(kept, one)
        mean = Div(sum, count)
        length = ReduceL2<keepdims = 1>(mean, one)
        embedding = Div(mean, length) }"""
    weights: Weights = {
        "table": _normal(50, 24),
        "w": _normal(24, 16),
        "last": np.array([2], np.int64),
        "one": np.array([1], np.int64),
    }
    feeds = {
        "ids": _rng().integers(0, 50, (3, 7)),
        "mask": np.array([[1] * 7, [1] * 4 + [0] * 3, [1] + [0] * 6], np.int64),
    }
    return DeviceModel(_model(text, weights), feeds)


def _detection() -> DeviceModel:
    """Boxes of a convolution, NonMaxSuppression, and the boxes that it selects."""
    text = """g (float[1, 3, 8, 8] image) => (float[K, 4] boxes, int64[K, 3] selected) {
        features = Conv<pads = [1, 1, 1, 1]>(image, w1)
        raw = Conv(features, w2)
        flat = Reshape(raw, rows)
        corners = Sigmoid(flat)
        first, second = Split<axis = 1, num_outputs = 2>(corners)
        far = Add(first, second)
        pairs = Concat<axis = 1>(first, far)
        all = Transpose<perm = [0, 2, 1]>(pairs)
        judged = Conv(features, w3)
        scores0 = Reshape(judged, classes)
        scores = Sigmoid(scores0)
        selected = NonMaxSuppression(all, scores, most, overlap, least)
        column = Slice(selected, two, three, one)
        index = Squeeze(column, one)
        single = Squeeze(all, zero)
        boxes = Gather(single, index) }"""
    weights: Weights = {
        "w1": _normal(6, 3, 3, 3),
        "w2": _normal(4, 6, 1, 1, scale=1),
        "w3": _normal(2, 6, 1, 1, scale=1),
        "rows": np.array([1, 4, 64], np.int64),
        "classes": np.array([1, 2, 64], np.int64),
        "most": np.array([5], np.int64),
        "overlap": np.array([0.3], np.float32),
        "least": np.array([0.4], np.float32),
        "zero": np.array([0], np.int64),
        "one": np.array([1], np.int64),
        "two": np.array([2], np.int64),
        "three": np.array([3], np.int64),
    }
    return DeviceModel(_model(text, weights), {"image": _normal(1, 3, 8, 8, scale=1)})


def _quantized() -> DeviceModel:
    """A convolution between QuantizeLinear and DequantizeLinear, weights in 8 bits."""
    text = """g (float[1, 4, 8, 8] x) => (float[1, 6, 8, 8] y) {
        a = QuantizeLinear(x, sx, zx)
        b = DequantizeLinear(a, sx, zx)
        w = DequantizeLinear<axis = 0>(w8, sw, zw)
        c = Conv<pads = [1, 1, 1, 1]>(b, w)
        d = QuantizeLinear(c, sy, zy)
        y = DequantizeLinear(d, sy, zy) }"""
    weights: Weights = {
        "sx": np.array(0.03, np.float32),
        "zx": np.array(128, np.uint8),
        "w8": _rng().integers(-127, 128, (6, 4, 3, 3)).astype(np.int8),
        "sw": np.abs(_normal(6, scale=0.01)) + np.float32(0.001),
        "zw": np.zeros(6, np.int8),
        "sy": np.array(0.05, np.float32),
        "zy": np.array(128, np.uint8),
    }
    # One step of the output's scale, 0.05, where a sum lies between two of them.
    return DeviceModel(_model(text, weights), {"x": _normal(1, 4, 8, 8, scale=1)}, tolerance=0.02)


def _dynamically_quantized() -> DeviceModel:
    """A product in whole numbers, whose scale the run finds."""
    text = """g (float[N, 16] x) => (float[N, 8] y) {
        q, s, z = DynamicQuantizeLinear(x)
        m = MatMulInteger(q, w8, z, zw)
        f = Cast<to = 1>(m)
        t = Mul(s, sw)
        y = Mul(f, t) }"""
    weights: Weights = {
        "w8": _rng().integers(-127, 128, (16, 8)).astype(np.int8),
        "zw": np.array(0, np.int8),
        "sw": np.array(0.01, np.float32),
    }
    return DeviceModel(_model(text, weights), {"x": _normal(4, 16, scale=1)}, tolerance=0.01)


def _four_bits() -> DeviceModel:
    """A product with weights of 4 bits in blocks, as language models on devices have them."""
    text = """g (float[N, 64] x) => (float[N, 32] y) {
        a = com.microsoft.MatMulNBits<K = 64, N = 32, bits = 4, block_size = 32>(x, w4, scales)
        y = Tanh(a) }"""
    weights: Weights = {
        "w4": _rng().integers(0, 256, (32, 2, 16)).astype(np.uint8),
        "scales": np.abs(_normal(32 * 2, scale=0.02)),
    }
    return DeviceModel(_model(text, weights), {"x": _normal(3, 64, scale=1)}, tolerance=1e-3)


def _loop() -> DeviceModel:
    """A Loop that carries a state and collects what each round makes."""
    text = """g (float[4] x, int64 times) => (float[4] state, float[R, 4] rounds) {
        state, rounds = Loop(times, yes, x)
            <body = body (int64 i, bool go, float[4] s) => (bool on, float[4] t, float[4] part) {
                on = Identity(go)
                u = Mul(s, factor)
                t = Sin(u)
                part = Add(t, s) }> }"""
    weights: Weights = {"yes": np.array(True), "factor": np.array([1.5, 0.5, 2, 1], np.float32)}
    feeds = {"x": _normal(4, scale=1), "times": np.array(5, np.int64)}
    # Vulkan asks for sines with an error of at most 2**-11.
    return DeviceModel(_model(text, weights), feeds, tolerance=1e-3)


def _branches() -> DeviceModel:
    """An If whose condition the run finds, each branch with work of its own."""
    text = """g (float[N, 8] x) => (float[N, 8] y) {
        sum = ReduceSum<keepdims = 0>(x)
        is_positive = Greater(sum, zero)
        y = If(is_positive)
            <then_branch = yes () => (float[N, 8] a) { a = MatMul(x, w) },
             else_branch = no () => (float[N, 8] b) { c = Exp(x) b = MatMul(c, w) }> }"""
    weights = {"w": _normal(8, 8), "zero": np.array(0, np.float32)}
    return DeviceModel(_model(text, weights), {"x": -np.abs(_normal(3, 8, scale=1))})


def _half() -> DeviceModel:
    """A classifier in float16."""
    text = """g (float16[N, 32] x) => (float16[N, 10] y) {
        a = MatMul(x, w1)
        b = Add(a, b1)
        c = Relu(b)
        d = MatMul(c, w2)
        y = Softmax<axis = -1>(d) }"""
    weights = {"w1": _normal(32, 24), "b1": _normal(24), "w2": _normal(24, 10)}
    halves = {name: array.astype(np.float16) for name, array in weights.items()}
    feeds = {"x": _normal(4, 32, scale=1).astype(np.float16)}
    return DeviceModel(_model(text, halves), feeds, tolerance=0.01)


def _recurrent() -> DeviceModel:
    """An LSTM both ways, a GRU behind it."""
    text = """g (float[T, B, 6] x) => (float[T, 1, B, 5] y, float[2, B, 4] state) {
        a, state, cell = LSTM<hidden_size = 4, direction = "bidirectional">(x, w, r, b)
        t = Transpose<perm = [0, 2, 1, 3]>(a)
        joined = Reshape(t, eight)
        y = GRU<hidden_size = 5, linear_before_reset = 1>(joined, w2, r2) }"""
    weights: Weights = {
        "w": _normal(2, 16, 6),
        "r": _normal(2, 16, 4),
        "b": _normal(2, 32),
        "eight": np.array([0, 0, 8], np.int64),
        "w2": _normal(1, 15, 8),
        "r2": _normal(1, 15, 5),
    }
    return DeviceModel(_model(text, weights), {"x": _normal(7, 2, 6, scale=1)})


def _ranking() -> DeviceModel:
    """Numbers to places: TopK, ArgMax, a sum that runs along, comparison and choice."""
    text = """g (float[N, 12] x) => (float[N, 3] best, int64[N, 3] at, int64[N] most, float[N, 12] y) {
        best, at = TopK<axis = -1>(x, three)
        most = ArgMax<axis = 1, keepdims = 0>(x)
        sums = CumSum(x, axis)
        low = Less(sums, x)
        y = Where(low, sums, x) }"""
    weights: Weights = {"three": np.array([3], np.int64), "axis": np.array(1, np.int32)}
    return DeviceModel(_model(text, weights), {"x": _normal(4, 12, scale=1)})


def _decoder_step() -> DeviceModel:
    """One step of a decoder with a cache that grows: attention over past and present."""
    text = """g (float[1, 1, 16] x, float[1, 2, P, 8] past_k, float[1, 2, P, 8] past_v)
        => (float[1, 1, 16] y, float[1, 2, L, 8] k, float[1, 2, L, 8] v) {
        q0 = MatMul(x, wq) k0 = MatMul(x, wk) v0 = MatMul(x, wv)
        q1 = Reshape(q0, heads) k1 = Reshape(k0, heads) v1 = Reshape(v0, heads)
        q = Transpose<perm = [0, 2, 1, 3]>(q1)
        k2 = Transpose<perm = [0, 2, 1, 3]>(k1)
        v2 = Transpose<perm = [0, 2, 1, 3]>(v1)
        k = Concat<axis = 2>(past_k, k2)
        v = Concat<axis = 2>(past_v, v2)
        t = Transpose<perm = [0, 1, 3, 2]>(k)
        scores = MatMul(q, t)
        shares = Softmax<axis = -1>(scores)
        c = MatMul(shares, v)
        b = Transpose<perm = [0, 2, 1, 3]>(c)
        y = Reshape(b, model) }"""
    weights: Weights = {
        **{name: _normal(16, 16) for name in ("wq", "wk", "wv")},
        "heads": np.array([1, 1, 2, 8], np.int64),
        "model": np.array([1, 1, 16], np.int64),
    }
    past = {name: _normal(1, 2, 5, 8, scale=1) for name in ("past_k", "past_v")}
    return DeviceModel(_model(text, weights), {"x": _normal(1, 1, 16, scale=1), **past})


#: Kind of model → what makes one.
DEVICE_MODELS: Mapping[str, Callable[[], DeviceModel]] = {
    "convolutional": _convolutional,
    "segmentation": _segmentation,
    "attention": _attention,
    "text-embedding": _text_embedding,
    "detection": _detection,
    "quantized": _quantized,
    "dynamically-quantized": _dynamically_quantized,
    "four-bits": _four_bits,
    "loop": _loop,
    "branches": _branches,
    "half": _half,
    "recurrent": _recurrent,
    "ranking": _ranking,
    "decoder-step": _decoder_step,
}
