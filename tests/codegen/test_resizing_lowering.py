"""Resize as maps by tables: what they give is what the engine's kernel gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx.parser
import pytest

from ortpkg.codegen.lowering.lowering_scope import NotLoweredError
from ortpkg.codegen.lowering.operator_lowerings import lower_graph
from ortpkg.graph.onnx_reader import load_model
from ortpkg.shapes.inference import infer_sizes
from tests.codegen.compared_with_engine import assert_as_engine
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


def test_an_open_size_that_is_scaled_is_told() -> None:
    text = """g (float[1, 2, h, 3] x) => (float[1, 2, k, 6] y) <float[4] scales = {1, 1, 2, 2}> {
            y = Resize<mode = "nearest">(x, , scales) }"""
    model = load_model(onnx.parser.parse_model(HEADER + text).SerializeToString())
    with pytest.raises(NotLoweredError, match="the sizes that it scales are known only when it"):
        lower_graph(model.graph, infer_sizes(model), "program")
