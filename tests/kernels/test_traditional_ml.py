"""Maps and categories of ai.onnx.ml."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from ortpkg.foundations.errors import InvalidGraphError
from tests.kernels.node_runner import as_node, compute_node, run_op


def ours(op_type: str, value: Any, **attributes: Any) -> Any:
    return run_op(op_type, value, domain="ai.onnx.ml", **attributes)


def test_zip_map_names_each_score() -> None:
    scores = np.array([[0.25, 0.75], [0.5, 0.5]], np.float32)
    assert ours("ZipMap", scores, classlabels_strings=["no", "yes"]) == [
        {"no": 0.25, "yes": 0.75},
        {"no": 0.5, "yes": 0.5},
    ]


def test_zip_map_refuses_another_number_of_columns() -> None:
    with pytest.raises(
        ValueError, match=r"2 class labels do not name the columns of scores of shape \(1, 3\)"
    ):
        ours("ZipMap", np.zeros((1, 3), np.float32), classlabels_int64s=[1, 2])


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [({}, [[0.5, 2.0]]), ({"map_form": "SPARSE", "max_map": 5}, [[0, 0.5, 0, 0, 2.0]])],
)
def test_cast_map_orders_by_key(attributes: dict[str, Any], expected: list[list[float]]) -> None:
    assert ours("CastMap", {4: 2.0, 1: 0.5}, **attributes).tolist() == expected


def test_cast_map_writes_numbers_as_onnxruntime_does() -> None:
    entries = {1: 16777216.0, 2: 0.5, 3: float("nan")}
    texts = ours("CastMap", entries, cast_to="TO_STRING").tolist()
    assert texts == [["16777216.000000", "0.500000", "nan"]]  # of onnxruntime 1.31
    assert ours("CastMap", {1: "a"}, cast_to="TO_STRING").tolist() == [["a"]]


def test_cast_map_refuses_a_key_beyond_its_width() -> None:
    with pytest.raises(
        ValueError, match=r"keys of a sparse map lie in \[0, 3\), but these reach from 1 to 4"
    ):
        ours("CastMap", {4: 2.0, 1: 0.5}, map_form="SPARSE", max_map=3)


def test_category_mapper_goes_both_ways_with_defaults() -> None:
    pairs = {"cats_int64s": [10, 20], "cats_strings": ["ten", "twenty"]}
    texts = np.array([["ten", "one"]], dtype=object)
    assert ours("CategoryMapper", texts, **pairs).tolist() == [[10, -1]]
    assert ours("CategoryMapper", np.array([20, 3]), **pairs, default_string="?").tolist() == [
        "twenty",
        "?",
    ]


def test_category_mapper_refuses_lists_that_do_not_pair() -> None:
    with pytest.raises(InvalidGraphError, match="1 integers and 2 strings do not pair"):
        ours("CategoryMapper", np.array([1]), cats_int64s=[1], cats_strings=["a", "b"])


def label_encoded(version: int, x: Any, **attributes: Any) -> Any:
    node = as_node(
        helper.make_node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", **attributes),
        {"ai.onnx.ml": version},
    )
    return compute_node(node, [x], version)[0].tolist()


def test_label_encoder_1_goes_both_ways() -> None:
    assert label_encoded(1, np.array(["b", "z"], dtype=object), classes_strings=["a", "b"]) == [
        1,
        -1,
    ]
    assert label_encoded(1, np.array([0, 7]), classes_strings=["a", "b"]) == ["a", "_Unused"]


def test_label_encoder_finds_nan() -> None:
    x = np.array([1.5, np.nan, 3], np.float32)
    assert label_encoded(2, x, keys_floats=[float("nan"), 1.5], values_strings=["nan", "x"]) == [
        "x",
        "nan",
        "_Unused",
    ]


@pytest.mark.parametrize("version", [2, 4])
def test_label_encoder_takes_the_first_value_of_a_key_that_stands_twice(version: int) -> None:
    pairs = {"keys_int64s": [1, 2, 1], "values_int64s": [4, 5, 6]}
    assert label_encoded(version, np.array([1, 2, 3]), **pairs) == [4, 5, -1]


def test_label_encoder_refuses_lists_that_do_not_pair() -> None:
    with pytest.raises(InvalidGraphError, match="2 keys and 1 values do not pair"):
        label_encoded(2, np.array([1]), keys_int64s=[1, 2], values_int64s=[1])
