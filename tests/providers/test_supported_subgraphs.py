"""Maximal partitions: convex, together free of cycles, as few as merging allows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ortpkg.graph.graph import Graph
from ortpkg.graph.topology import topological_order
from ortpkg.runtime.providers.execution_provider import GraphViewer
from ortpkg.runtime.providers.supported_subgraphs import (
    _Grouping,
    subgraph_signature,
    supported_subgraphs,
)
from tests.lines_run import instructions_run


def graph_of(edges: list[list[int]]) -> Graph:
    """Node i makes value ``vi`` from the values of ``edges[i]``.

    A node without any takes the graph's input.
    """
    graph = Graph("g")
    graph.set_inputs(["x"])
    for number, sources in enumerate(edges):
        graph.add_node(
            "Sum", [f"v{source}" for source in sources] or ["x"], [f"v{number}"], name=f"n{number}"
        )
    graph.set_outputs([f"v{len(edges) - 1}"])
    return graph


def groups_of(
    edges: list[list[int]], supported: set[int], *, joins_apart: bool = False
) -> list[tuple[int, ...]]:
    graph = graph_of(edges)
    viewer = GraphViewer(graph, topological_order(graph))
    return supported_subgraphs(viewer, supported, joins_apart=joins_apart)


@pytest.mark.requirement("D06")
@pytest.mark.parametrize(
    ("edges", "supported", "expected"),
    [
        pytest.param([[], [0], [1]], {0, 1, 2}, [(0, 1, 2)], id="a chain is one"),
        pytest.param([[], [0], [1]], {0, 2}, [(0,), (2,)], id="cut by a node in the middle"),
        pytest.param(
            [[], [0], [0, 1]], {0, 2}, [(0,), (2,)], id="a way around outside must not return"
        ),
        pytest.param([[], [], [0, 1]], {0, 1, 2}, [(0, 1, 2)], id="branches meet in one"),
        pytest.param(
            [[], [0], [0], [1, 2]], {0, 1, 3}, [(0, 1), (3,)], id="diamond with one foreign side"
        ),
        pytest.param([[], [0]], set(), [], id="nothing supported"),
        pytest.param(
            [[], [0], [0], [1], [2], [3, 4]],
            {0, 2, 3, 4, 5},
            [(0, 2, 4), (3, 5)],
            id="two that touch",
        ),
    ],
)
def test_groups(
    edges: list[list[int]], supported: set[int], expected: list[tuple[int, ...]]
) -> None:
    assert groups_of(edges, supported) == expected


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[list[int]], set[int]]:
    count = draw(st.integers(1, 14))
    edges = [
        draw(st.lists(st.integers(0, number - 1), max_size=3, unique=True)) if number else []
        for number in range(count)
    ]
    return edges, draw(st.sets(st.integers(0, count - 1)))


def is_acyclic(edges: list[list[int]], groups: list[tuple[int, ...]]) -> bool:
    """Whether the graph stays without a cycle when each group is one node."""
    group_of = {
        member: ("group", number) for number, members in enumerate(groups) for member in members
    }
    real = {number: group_of.get(number, ("node", number)) for number in range(len(edges))}
    needs: dict[object, set[object]] = {name: set() for name in real.values()}
    for number, sources in enumerate(edges):
        needs[real[number]] |= {real[source] for source in sources} - {real[number]}
    while needs:
        free = [name for name, others in needs.items() if not others & needs.keys()]
        if not free:
            return False
        for name in free:
            del needs[name]
    return True


@pytest.mark.parametrize(
    ("edges", "supported", "expected"),
    [
        pytest.param([[], [], []], {0, 2}, [(0, 2)], id="nothing lies between them"),
        pytest.param([[], [0], [1]], {0, 2}, [(0,), (2,)], id="one needs the other"),
        pytest.param([[], [0], [], [2], [1]], {0, 2, 4}, [(0, 2), (4,)], id="one of three needs"),
    ],
)
def test_groups_that_no_path_connects_are_one_where_that_is_asked(
    edges: list[list[int]], supported: set[int], expected: list[tuple[int, ...]]
) -> None:
    assert groups_of(edges, supported, joins_apart=True) == expected


@given(graphs(), st.booleans())
def test_fused_groups_leave_the_graph_without_a_cycle(
    case: tuple[list[list[int]], set[int]],
    joins_apart: bool,
) -> None:
    edges, supported = case
    groups = groups_of(edges, supported, joins_apart=joins_apart)
    assert sorted(member for members in groups for member in members) == sorted(supported)
    assert is_acyclic(edges, groups)


@given(graphs(), st.sampled_from([-1, 0]))
def test_groups_that_end_for_lack_of_memory_leave_no_cycle(
    case: tuple[list[list[int]], set[int]], most_nbytes: int
) -> None:
    edges, supported = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "ortpkg.runtime.providers.supported_subgraphs._MOST_NEEDS_NBYTES", most_nbytes
        )
        groups = groups_of(edges, supported)
    assert sorted(member for members in groups for member in members) == sorted(supported)
    assert is_acyclic(edges, groups)


def test_what_is_known_of_paths_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ortpkg.runtime.providers.supported_subgraphs._MOST_NEEDS_NBYTES", 10_000)
    edges: list[list[int]] = [[number - 1] if number else [] for number in range(5_000)]
    graph = graph_of(edges)
    grouping = _Grouping(
        GraphViewer(graph, topological_order(graph)), frozenset(range(0, 5_000, 2))
    )
    assert len(grouping.groups()) == 2_500
    held_nbytes = sum(needs.bit_length() for needs in grouping._needs) // 8
    assert held_nbytes < 20_000


@given(graphs())
def test_no_two_neighbouring_groups_could_be_one(case: tuple[list[list[int]], set[int]]) -> None:
    edges, supported = case
    groups = groups_of(edges, supported)
    for first in range(len(groups)):
        for second in range(first + 1, len(groups)):
            a, b = set(groups[first]), set(groups[second])
            touch = any(set(edges[node]) & b for node in a) or any(
                set(edges[node]) & a for node in b
            )
            rest = [group for number, group in enumerate(groups) if number not in (first, second)]
            assert not (touch and is_acyclic(edges, [*rest, groups[first] + groups[second]]))


def test_ten_thousand_nodes_in_a_chain_with_holes_are_quick() -> None:
    edges: list[list[int]] = [[number - 1] if number else [] for number in range(10_000)]
    groups = groups_of(edges, {number for number in range(10_000) if number % 100})
    assert [len(group) for group in groups] == [99] * 100


def test_signature_costs_what_its_partition_costs_however_large_the_graph_is() -> None:
    def instructions(count: int) -> int:
        graph = Graph("g")
        graph.set_inputs([f"x{number}" for number in range(count)])
        for number in range(count):
            graph.add_node("Relu", [f"x{number}"], [f"y{number}"], name=f"n{number}")
        graph.set_outputs([f"y{number}" for number in range(count)])
        return instructions_run(lambda: subgraph_signature(graph, (3, 2)))

    assert instructions(10) == instructions(1000)


def test_signature_has_inputs_and_outputs_of_the_graph_first_and_in_its_order() -> None:
    graph = Graph("g")
    graph.set_inputs(["x", "y"])
    graph.add_node("Relu", ["x"], ["u"], name="n0")
    graph.add_node("Sum", ["u", "y", "x"], ["v"], name="n1")
    graph.add_node("Relu", ["v"], ["w"], name="n2")
    graph.add_node("Relu", ["v"], ["z"], name="n3")
    graph.set_outputs(["w", "v"])

    assert subgraph_signature(graph, (1, 2)) == (("x", "y", "u"), ("w", "v"))


def test_signature_is_what_flows_in_and_out() -> None:
    graph = graph_of([[], [0], [1], [1, 2]])
    inputs, outputs = subgraph_signature(graph, (1, 2))
    assert (inputs, outputs) == (("v0",), ("v1", "v2"))
    inputs, outputs = subgraph_signature(graph, (2, 3))
    assert (inputs, outputs) == (("v1",), ("v3",))
