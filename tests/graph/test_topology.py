"""Topological order: right, stable, and for every size of graph."""

from __future__ import annotations

from random import Random

import pytest

from ortpkg.foundations.errors import InvalidGraphError
from ortpkg.graph.graph import Graph
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.topology import topological_order
from tests.graph.model_factories import parse


def chain(count: int, order: list[int]) -> Graph:
    """v0 → v1 → ... with the nodes added in the given order."""
    graph = Graph("chain")
    graph.set_inputs(["v0"])
    for number in order:
        graph.add_node("Neg", [f"v{number}"], [f"v{number + 1}"], name=f"n{number}")
    graph.set_outputs([f"v{count}"])
    return graph


def names(graph: Graph) -> list[str]:
    return [graph.node(index).name for index in topological_order(graph)]


@pytest.mark.requirement("M02")
def test_nodes_in_order_keep_it() -> None:
    graph = Graph()
    graph.set_inputs(["x"])
    for name, inputs in {"a": ["x"], "b": ["a_out"], "c": ["x"], "d": ["b_out", "c_out"]}.items():
        graph.add_node("Op", inputs, [f"{name}_out"], name=name)

    assert names(graph) == ["a", "b", "c", "d"]


@pytest.mark.requirement("M02")
def test_nodes_out_of_order_are_put_in_order() -> None:
    order = list(range(1000))
    Random(3).shuffle(order)

    assert names(chain(1000, order)) == [f"n{number}" for number in range(1000)]


def test_ties_go_to_the_node_that_was_added_first() -> None:
    graph = Graph()
    graph.set_inputs(["x"])
    graph.add_node("Op", ["late"], ["out"], name="last")
    for name in ("third", "first", "second"):
        graph.add_node("Op", ["x"], [f"{name}_out"], name=name)
    graph.add_node("Op", ["third_out"], ["late"], name="late")

    assert names(graph) == ["third", "first", "second", "late", "last"]


def test_a_node_in_place_of_another_takes_its_turn() -> None:
    graph = chain(3, [0, 1, 2])
    graph.add_node("Op", ["v0"], ["w"], name="side")
    old = next(node for node in graph.nodes if node.name == "n0")
    graph.remove_node(old)
    graph.add_node("Neg", ["v0"], ["v1"], name="new", at=old)

    assert names(graph) == ["new", "n1", "n2", "side"]


def test_what_a_sub_graph_takes_counts() -> None:
    graph = load_model(
        parse(
            """g (bool c, float[2] x) => (float[2] y) {
            [if] y = If (c) <then_branch = t () => (float[2] p) { p = Relu(a) },
                             else_branch = e () => (float[2] q) { q = Neg(x) }>
            [exp] a = Exp(x) }"""
        )
    ).graph

    assert names(graph) == ["exp", "if"]


def test_a_deep_chain_backwards_needs_no_recursion() -> None:
    count = 20_000

    assert names(chain(count, list(reversed(range(count))))) == [
        f"n{number}" for number in range(count)
    ]


def test_a_cycle_is_named_by_a_node_on_it() -> None:
    graph = chain(3, [0, 1, 2])
    graph.add_node("Add", ["v3", "loop2"], ["loop1"], name="on-cycle")
    graph.add_node("Neg", ["loop1"], ["loop2"], name="on-cycle-too")
    graph.add_node("Neg", ["loop2"], ["behind"], name="behind-it")

    with pytest.raises(
        InvalidGraphError, match=r"the graph has a cycle through .* node 'on-cycle(-too)?'"
    ) as caught:
        topological_order(graph)
    assert caught.value.node_name in ("on-cycle", "on-cycle-too")
