"""ArgMax and ArgMin become two reductions, which find the position that numpy finds."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest

from ortpkg.compiler.lowering.lowering_scope import NotLoweredError
from ortpkg.compiler.lowering.operator_lowerings import lower_graph
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.shapes.inference import infer_sizes
from tests.compiler.compared_with_engine import assert_as_engine
from tests.engine.transformers.transformation import HEADER

_ROWS = np.array(
    [[3, 7, 7, -1, 7], [0, np.nan, 2, np.nan, 9], [-np.inf] * 5, [1, -2, 5, -2, np.inf]], np.float32
)


@pytest.mark.parametrize("is_last", [0, 1])
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("operator", ["ArgMax", "ArgMin"])
def test_the_position_is_that_of_the_engine(operator: str, axis: int, is_last: int) -> None:
    rows = np.nan_to_num(_ROWS, nan=-5) if is_last else _ROWS
    text = f"""g (float[4, 5] x) => (int64[n, m] y)
        {{ y = {operator}<axis = {axis}, select_last_index = {is_last}>(x) }}"""
    assert_as_engine(text, {"x": rows})


def test_integers_keep_all_their_digits() -> None:
    text = "g (int64[2, 3] x) => (int64[2] y) { y = ArgMax<axis = 1, keepdims = 0>(x) }"
    assert_as_engine(text, {"x": np.array([[1 << 60, (1 << 60) + 1, 5], [-3, -2, -2]])})


@pytest.mark.parametrize("is_last", [0, 1])
def test_an_axis_that_only_a_run_knows_is_one_of_a_formula(is_last: int) -> None:
    text = f"""g (float[k, n] x) => (int64[k, 1] y)
        {{ y = ArgMax<axis = 1, select_last_index = {is_last}>(x) }}"""
    rows = np.nan_to_num(_ROWS, nan=-5) if is_last else _ROWS
    program = assert_as_engine(text, {"x": rows})
    assert [str(each) for each in program.margins] == ["n - 1"]


def test_an_axis_without_elements_is_left() -> None:
    text = "g (float[2, 0] x) => (int64[2, 1] y) { y = ArgMax<axis = 1>(x) }"
    program = onnx.parser.parse_model(HEADER + text)
    model = load_model(program.SerializeToString())
    with pytest.raises(NotLoweredError, match="do not fit"):
        lower_graph(model.graph, infer_sizes(model), "program")
