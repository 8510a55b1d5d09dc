"""A dimension that a reshape only carries over keeps its name; one that might be another gets none."""

from __future__ import annotations

import numpy as np
import pytest

from ortpkg.engine.transformers.dimension_unification import DIMENSION_UNIFICATION
from ortpkg.engine.transformers.rewriting import known_shape
from ortpkg.engine.transformers.transform_context import TransformContext
from ortpkg.graph.graph import Graph
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.shape_inference import infer_types
from tests.engine.transformers.transformation import parse


def unified(inputs: str, target: list[int], outputs: str) -> tuple[Graph, int]:
    text = f"g ({inputs}) => ({outputs}) {{ a = Reshape(x, target) b = Neg(a) y = Reshape(b, back) }}"
    model = load_model(parse(text, {"target": np.array(target), "back": np.array([-1])}))
    infer_types(model)
    changes = DIMENSION_UNIFICATION.apply(model.graph, TransformContext())
    assert DIMENSION_UNIFICATION.apply(model.graph, TransformContext()) == 0
    return model.graph, changes


def test_the_one_open_dimension_keeps_its_name_from_then_on() -> None:
    graph, changes = unified("float[1, length, 8] x", [1, -1, 4, 2], "float[m] y")

    assert changes == 2
    assert known_shape(graph, "a") == known_shape(graph, "b") == (1, "length", 4, 2)


def test_what_is_open_behind_is_filled_in() -> None:
    text = """g (float[1, length, 8] x) => (float[m] y) {
        a = Reshape(x, target) b = Neg(a) c = Reshape(b, joined) s = Add(c, x) n = Tanh(s) p = MatMul(n, w)
        y = Reshape(p, back) }"""
    targets = {"target": [1, -1, 4, 2], "joined": [1, -1, 8], "back": [-1]}
    constants = {name: np.array(target) for name, target in targets.items()} | {"w": np.ones((8, 3), np.float32)}
    graph = load_model(parse(text, constants))
    infer_types(graph)

    assert DIMENSION_UNIFICATION.apply(graph.graph, TransformContext())

    shapes = [known_shape(graph.graph, name) for name in "csnp"]
    assert shapes == [(1, "length", 8), (1, "length", 8), (1, "length", 8), (1, "length", 3)]


def test_names_of_the_graphs_outputs_stay() -> None:
    graph, _ = unified("float[1, length, 8] x", [1, -1, 4, 2], "float[mine] y")

    assert known_shape(graph, "y") == ("mine",)


@pytest.mark.parametrize(
    ("inputs", "target"),
    [("float[batch, length, 8] x", [-1, 8]), ("float[1, length, 8] x", [-1, 4]), ("float[1, length, 0] x", [1, -1, 3])],
    ids=["two become one", "other number", "no elements"],
)
def test_dimensions_that_may_differ_get_no_name(inputs: str, target: list[int]) -> None:
    graph, changes = unified(inputs, target, "float[m] y")

    assert changes == 0
    assert "length" not in (known_shape(graph, "a") or ())
