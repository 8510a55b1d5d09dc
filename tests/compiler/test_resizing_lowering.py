"""Resize as maps by tables: what they give is what the engine's kernel gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx.parser
import pytest

from ortpkg.compiler.lowering.lowering_scope import NotLoweredError
from ortpkg.compiler.lowering.operator_lowerings import lower_graph
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.shapes.inference import infer_sizes
from tests.compiler.compared_with_engine import assert_as_engine
from tests.engine.transformers.transformation import HEADER

Array = npt.NDArray[Any]


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "align_corners", "asymmetric"])
def test_axes_grow_and_shrink_for_any_batch(mode: str, coordinates: str) -> None:
    text = f"""g (float[b, 2, 4, 7] x) => (float[b, 2, 10, 5] y)
        <float[4] scales = {{1, 1, 2.5, 0.72}}> {{
            y = Resize<mode = "{mode}", coordinate_transformation_mode = "{coordinates}">
                (x, , scales) }}"""
    x = np.random.default_rng(0).standard_normal((3, 2, 4, 7)).astype(np.float32)
    assert_as_engine(text, {"x": x}, rtol=1e-3)


def test_sizes_that_follow_an_open_one_leave_it_alone() -> None:
    text = """g (float[b, 2, 3, 3] x) => (float[b, 2, 6, 6] y)
        <int64[1] zero = {0}, int64[1] one = {1}, int64[3] rest = {2, 6, 6}> {
            s = Shape(x)  batch = Slice(s, zero, one)  sizes = Concat<axis = 0>(batch, rest)
            y = Resize<mode = "nearest">(x, , , sizes) }"""
    x = np.arange(36, dtype=np.float32).reshape(2, 2, 3, 3)
    assert_as_engine(text, {"x": x})


@pytest.mark.parametrize(
    "attributes",
    [
        'mode = "nearest"',
        'mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"',
    ],
)
@pytest.mark.parametrize("shape", [(1, 2, 5, 3), (2, 2, 1, 3), (1, 2, 640, 3)])
def test_open_sizes_grow_by_whole_factors(attributes: str, shape: tuple[int, ...]) -> None:
    text = f"""g (float[b, 2, h, 3] x) => (float[b, 2, k, 9] y)
        <float[4] scales = {{1, 1, 2, 3}}> {{ y = Resize<{attributes}>(x, , scales) }}"""
    assert_as_engine(text, {"x": np.random.default_rng(0).random(shape).astype(np.float32)})


def test_sizes_that_are_multiples_of_open_ones_repeat() -> None:
    text = """g (float[b, 2, h, w] x) => (float[b, 2, k, m] y)
        <int64[1] zero = {0}, int64[1] two = {2}, int64[1] four = {4}, int64[2] twice = {2, 3}> {
            s = Shape(x)  first = Slice(s, zero, two)  last = Slice(s, two, four)
            more = Mul(last, twice)  sizes = Concat<axis = 0>(first, more)
            y = Resize<mode = "nearest">(x, , , sizes) }"""
    assert_as_engine(text, {"x": np.arange(40, dtype=np.float32).reshape(1, 2, 4, 5)})


@pytest.mark.parametrize(
    ("scale", "attributes"),
    [
        ("1.5", 'mode = "nearest"'),
        ("0.5", 'mode = "nearest"'),
        ("2", 'mode = "linear"'),
        # half a pixel, rounded down: elements stand in other places than repeats of them
        ("2", 'mode = "nearest", nearest_mode = "floor"'),
    ],
)
def test_an_open_size_that_is_not_just_repeated_is_told(scale: str, attributes: str) -> None:
    text = f"""g (float[1, 2, h, 3] x) => (float[1, 2, k, 6] y)
        <float[4] scales = {{1, 1, {scale}, 2}}> {{ y = Resize<{attributes}>(x, , scales) }}"""
    model = load_model(onnx.parser.parse_model(HEADER + text).SerializeToString())
    with pytest.raises(NotLoweredError, match="the sizes that it scales are known only when it"):
        lower_graph(model.graph, infer_sizes(model), "program")
