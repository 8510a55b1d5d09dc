"""A dimension that a reshape only carries over keeps its name.

One that might be another gets none.
"""

from __future__ import annotations

import numpy as np
import pytest

from ortpkg.graph.graph import Graph
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.shapes.inference import infer_types
from ortpkg.graph.types import Shape, TensorType
from tests.graph.model_factories import parse


def inferred(text: str, **constants: list[int]) -> Graph:
    weights = {name: np.array(values) for name, values in constants.items()}
    model = load_model(parse(text, weights | {"w": np.ones((8, 3), np.float32)}))
    infer_types(model)
    return model.graph


def shape_of(graph: Graph, value: str) -> Shape | None:
    found = graph.types[value]
    assert isinstance(found, TensorType)
    return found.shape


def reshaped(inputs: str, target: list[int], outputs: str) -> Graph:
    text = (
        f"g ({inputs}) => ({outputs}) {{ a = Reshape(x, target) b = Neg(a) y = Reshape(b, back) }}"
    )
    return inferred(text, target=target, back=[-1])


def test_the_one_open_dimension_keeps_its_name_from_then_on() -> None:
    graph = reshaped("float[1, length, 8] x", [1, -1, 4, 2], "float[m] y")

    assert shape_of(graph, "a") == shape_of(graph, "b") == (1, "length", 4, 2)


def test_what_is_behind_has_the_name_too() -> None:
    graph = inferred(
        """g (float[1, length, 8] x) => (float[m] y) {
        a = Reshape(x, target) b = Neg(a) c = Reshape(b, joined) s = Add(c, x) n = Tanh(s) p = MatMul(n, w)
        y = Reshape(p, back) }""",
        target=[1, -1, 4, 2],
        joined=[1, -1, 8],
        back=[-1],
    )

    shapes = [shape_of(graph, name) for name in "csnp"]
    assert shapes == [(1, "length", 8), (1, "length", 8), (1, "length", 8), (1, "length", 3)]


def test_names_of_the_graphs_outputs_stay() -> None:
    assert shape_of(reshaped("float[1, length, 8] x", [1, -1, 4, 2], "float[mine] y"), "y") == (
        "mine",
    )


@pytest.mark.parametrize(
    ("inputs", "target", "shape"),
    [
        ("float[batch, length, 8] x", [-1, 8], ("batch*length", 8)),
        ("float[1, length, 8] x", [-1, 4], ("2*length", 4)),
        ("float[1, length, 6] x", [-1, 4], ("floor(6*length/4)", 4)),
        ("float[1, length, 0] x", [1, -1, 3], (1, 0, 3)),
    ],
    ids=["two become one", "twice as many", "a part of it", "no elements"],
)
def test_dimensions_that_differ_say_how(inputs: str, target: list[int], shape: Shape) -> None:
    assert shape_of(reshaped(inputs, target, "float[m] y"), "a") == shape
