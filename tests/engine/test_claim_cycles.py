"""Claims that can all become single nodes: asked at once, and one by one."""

from __future__ import annotations

import pytest

from ortpkg.graph.graph import Graph
from ortpkg.graph.topology import topological_order
from ortpkg.runtime.engine.claim_cycles import are_free_of_cycles, leaves_and_returns


def diamond() -> Graph:
    """n0 is used by n1 and n2, which n3 joins."""
    graph = Graph("g")
    graph.set_inputs(["x"])
    for name, inputs in (("n0", ["x"]), ("n1", ["n0"]), ("n2", ["n0"]), ("n3", ["n1", "n2"])):
        graph.add_node("Sum", inputs, [name], name=name)
    graph.set_outputs(["n3"])
    return graph


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ([], True),
        ([(0, 1), (2, 3)], True),
        ([(0, 1), (2,)], True),
        ([(0, 3)], False),
        ([(0, 1, 2, 3)], True),
        ([(1, 2)], True),
        ([(0, 1), (1, 3)], False),  # a node that both claim
        ([(1, 1)], True),
    ],
)
def test_claims_are_free_of_cycles(claims: list[tuple[int, ...]], expected: bool) -> None:
    assert are_free_of_cycles(diamond(), claims) == expected


def test_claims_that_need_each_other_are_not_free_of_cycles() -> None:
    graph = Graph("g")
    graph.set_inputs(["x"])
    for name, inputs in (("n0", ["x"]), ("n1", ["x"]), ("n2", ["n1"]), ("n3", ["n0"])):
        graph.add_node("Sum", inputs, [name], name=name)

    assert are_free_of_cycles(graph, [(0, 2)])
    assert are_free_of_cycles(graph, [(1, 3)])
    assert not are_free_of_cycles(graph, [(0, 2), (1, 3)])


@pytest.mark.parametrize(
    ("nodes", "expected"), [((0, 1), False), ((0, 3), True), ((0, 1, 3), True), ((1, 2), False)]
)
def test_a_path_leaves_a_claim_and_returns(nodes: tuple[int, ...], expected: bool) -> None:
    graph = diamond()
    claimed = [graph.node(index) for index in nodes]

    assert leaves_and_returns(graph, claimed, topological_order(graph)) == expected
