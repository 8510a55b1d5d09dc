"""Inference with symbols against runs of the models: sizes, and elements followed."""

from __future__ import annotations

import numpy as np
import pytest

from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.shapes.expressions import Size, evaluate, symbols_of
from ortpkg.graph.shapes.inference import infer_sizes
from ortpkg.graph.shapes.knowledge import KnownTensor
from ortpkg.runtime.session.inference_session import InferenceSession
from tests.graph.model_factories import parse

#: Model → shapes of its inputs, in order. Every output is compared.
MODELS = {
    "the only iteration of a loop changes its state": (
        """g (float[N] x) => (y) <int64 trips = {1}> {
             y = Loop(trips, , x) <body = b (int64 i, bool c, s) => (d, t)
                                   { d = Identity(c) t = Concat<axis = 0>(s, s) }> }""",
        [(3,)],
    ),
    "a loop that may not begin": (
        """g (float[N] x, bool begins) => (y) <int64 trips = {1}> {
             y = Loop(trips, begins, x) <body = b (int64 i, bool c, s) => (d, t)
                                         { d = Identity(c) t = Concat<axis = 0>(s, s) }> }""",
        [(3,), ()],
    ),
    "fewer iterations than none": (
        """g (float[N] x) => (t, y) <int64 five = {5}> {
             n = Size(x) trips = Sub(n, five)
             t, y = Loop(trips, , x) <body = b (int64 i, bool c, s) => (d, t, e)
                                      { d = Identity(c) t = Neg(s) e = Identity(five) }> }""",
        [(3,)],
    ),
    "a quotient of less than nothing is rounded towards it": (
        """g (float[N] x) => (q, y) <int64[1] five = {5}, int64[1] two = {2}, int64[1] ten = {10}> {
             n = Shape(x) d = Sub(n, five) q = Div(d, two) t = Add(q, ten) y = ConstantOfShape(t) }""",
        [(2,)],
    ),
    "numbers that a cast wraps around": (
        """g (float[N] x) => (d, y) <int64[1] k = {4294967300}> {
             c = Cast<to = 6>(k) d = Cast<to = 7>(c) y = ConstantOfShape(d) }""",
        [(2,)],
    ),
    "numbers of 32 bits that a product wraps around": (
        """g (float[N] x) => (d, y) <int32[1] k = {65536}, int32[1] three = {3}> {
             p = Mul(k, k) s = Add(p, three) d = Cast<to = 7>(s) y = ConstantOfShape(d) }""",
        [(2,)],
    ),
    "numbers of 64 bits that a sum wraps around": (
        "g (float[N] x) => (s) <int64[2] k = {9223372036854775807, 3}> { s = ReduceSum(k) }",
        [(2,)],
    ),
    "letters of Einsum that are broadcast": (
        """g (float[M] a, float[N] b) => (y, z) {
             y = Einsum<equation = "i,i->i">(a, b) z = Einsum<equation = "i,i->i">(b, a) }""",
        [(1,), (3,)],
    ),
    "parts that are left nothing": (
        "g (float[N] x) => (a, b, c, d) { a, b, c, d = Split<axis = 0, num_outputs = 4>(x) }",
        [(5,)],
    ),
    "parts of a known size that are left nothing": (
        """g (float[1] x, float[5] y) => (a, b, c, d, e, f, g) {
             a, b, c = Split<axis = 0, num_outputs = 3>(x) d, e, f, g = Split<axis = 0, num_outputs = 4>(y) }""",
        [(1,), (5,)],
    ),
    "backwards from before the axis": (
        """g (float[3] x) => (y, z)
           <int64[1] far = {-100}, int64[1] farther = {-200}, int64[1] zero = {0}, int64[1] back = {-1}> {
             y = Slice(x, far, farther, zero, back) s = Shape(x) z = Slice(s, far, farther, zero, back) }""",
        [(3,)],
    ),
    "windows that reach beyond the padding, rounded up": (
        """g (float[1, 1, 2, 1] x, float[1, 1, A, B] y) => (p, q) {
             p = MaxPool<ceil_mode = 1, kernel_shape = [3, 3], pads = [0, 1, 2, 0], strides = [2, 3]>(x)
             q = MaxPool<ceil_mode = 1, kernel_shape = [3, 3], pads = [0, 1, 2, 0], strides = [2, 3]>(y) }""",
        [(1, 1, 2, 1), (1, 1, 2, 1)],
    ),
    "a transposed convolution whose windows do not touch": (
        """g (float[1, 1, N] x, float[1, 1, K] w) => (y) {
             y = ConvTranspose<auto_pad = "SAME_UPPER", strides = [3]>(x, w) }""",
        [(1, 1, 2), (1, 1, 2)],
    ),
    "numbers cast to bool and back": (
        """g (float[N] x) => (k, y) <int64[2] five = {5, 0}, int64[1] one = {1}> {
             b = Cast<to = 9>(five) k = Cast<to = 7>(b) s = Add(k, one) y = ConstantOfShape(s) }""",
        [(2,)],
    ),
    "a size of 0 that keeps another one": (
        """g (float[N] x, float[M, 3] y) => (z, w) <int64[1] three = {3}, int64[1] rest = {-1}> {
             s = Shape(x) t = Concat<axis = 0>(s, three) z = Reshape(y, t)
             u = Concat<axis = 0>(s, rest) w = Reshape(y, u) }""",
        [(0,), (5, 3)],
    ),
    "a size of 0 that keeps nothing": (
        """g (float[N] x, float[M, 3] y) => (z) <int64[1] three = {3}> {
             s = Shape(x) t = Concat<axis = 0>(s, three) z = Reshape<allowzero = 1>(y, t) }""",
        [(0,), (0, 3)],
    ),
    "sizes of which 32 bits do not hold a multiple": (
        """g (bool[N] x) => (z) <int32[1] many = {262144}> {
             s = Shape(x) c = Cast<to = 6>(s) p = Mul(c, many) d = Cast<to = 7>(p) z = ConstantOfShape(d) }""",
        [(16384,)],
    ),
    "sizes of which 32 bits do not hold the product": (
        """g (bool[N] x) => (y, z) <int64[1] axis = {0}> {
             s = Shape(x) c = Cast<to = 6>(s) p = Mul(c, c) d = Cast<to = 7>(p) y = ConstantOfShape(d)
             both = Concat<axis = 0>(c, c) q = ReduceProd(both, axis) e = Cast<to = 7>(q) z = ConstantOfShape(e) }""",
        [(65536,)],
    ),
    "what no iteration of a loop collects": (
        """g (float[N] x, float[T] times) => (s, y) {
             trips = Size(times)
             s, y = Loop(trips, , x) <body = b (int64 i, bool c, v) => (d, w, e)
                                      { d = Identity(c) w = Neg(v) e = Neg(x) }> }""",
        [(3,), (0,)],
    ),
    "what no iteration of a scan collects": (
        """g (float[L, N] x, float[2] h) => (s, y) {
             s, y = Scan(h, x) <num_scan_inputs = 1, scan_output_axes = [1], body = b (a, each) => (t, e)
                                { t = Neg(a) e = Concat<axis = 0>(each, a) }> }""",
        [(0, 3), (2,)],
    ),
    "the elements of what no iteration changes": (
        """g (float[N] x, float[T] times) => (y) <int64[1] two = {2}> {
             s = Shape(x) trips = Size(times)
             a = Loop(trips, , s) <body = b (int64 i, bool c, v) => (d, w)
                                   { d = Identity(c) w = Mul(v, two) }> y = ConstantOfShape(a) }""",
        [(3,), (0,)],
    ),
    "windows that start in the padding behind the input": (
        """g (float[1, 1, N] x) => (a, b, c, d) {
             a = MaxPool<ceil_mode = 1, kernel_shape = [2], pads = [0, 2]>(x)
             b = MaxPool<ceil_mode = 1, kernel_shape = [1], pads = [1, 2]>(x)
             c = LpPool<ceil_mode = 1, kernel_shape = [1], pads = [2, 2], strides = [3]>(x)
             d = MaxPool<ceil_mode = 1, kernel_shape = [3], pads = [1, 2], strides = [2]>(x) }""",
        [(1, 1, 4)],
    ),
    "what is left beside a size of 0 that is meant": (
        """g (float[2, 4, B] x) => (y) <int64[2] s = {-1, 0}> { y = Reshape<allowzero = 1>(x, s) }""",
        [(2, 4, 0)],
    ),
    "a size of nothing with its ratio kept": (
        """g (float[3] x) => (y) <int64[1] none = {0}> {
             y = Resize<mode = "nearest", keep_aspect_ratio_policy = "not_smaller">(x, , , none) }""",
        [(3,)],
    ),
}


@pytest.mark.parametrize(("text", "shapes"), MODELS.values(), ids=MODELS)
def test_says_what_a_run_makes(text: str, shapes: list[tuple[int, ...]]) -> None:
    proto = parse(text)
    known = infer_sizes(model := load_model(proto))
    with InferenceSession(proto.SerializeToString(), providers=["cpu"]) as session:
        feeds = {
            declared.name: np.ones(shape, bool if declared.type == "tensor(bool)" else np.float32)
            for declared, shape in zip(session.get_inputs(), shapes, strict=True)
        }
        results = session.run(None, feeds)
        values = {
            str(dimension): size
            for declared, shape in zip(session.get_inputs(), shapes, strict=True)
            for dimension, size in zip(declared.shape, shape, strict=True)
        }

    for name, made in zip(model.graph.outputs, results, strict=True):
        said = known[name]
        assert isinstance(said, KnownTensor)
        assert isinstance(made, np.ndarray)
        assert said.shape is not None
        pairs: list[tuple[Size | None, int]] = [*zip(said.shape, made.shape, strict=True)]
        pairs += (
            []
            if said.elements is None
            else zip(said.elements, made.reshape(-1).tolist(), strict=True)
        )
        for size, number in pairs:
            if size is not None and not any(each.is_anonymous for each in symbols_of(size)):
                assert evaluate(size, values) == number, name
