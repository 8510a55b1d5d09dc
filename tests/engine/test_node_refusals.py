from __future__ import annotations

import pytest

from ortpkg.runtime.engine.node_refusals import refusal_groups, refusal_summary, refused_nodes
from ortpkg.runtime.engine.partition import Partition


def _partition(operators: str, *, reasons: dict[int, str], path: str = "") -> Partition:
    """Nodes ``n0``, ``n1``, ... of the CPU; reasons by number, of a provider that came before."""
    op_types = tuple(operators.split())
    return Partition(
        provider="CPU",
        node_names=tuple(f"n{place}" for place in range(len(op_types))),
        op_types=op_types,
        graph_path=path,
        refusals={f"n{place}": {"Fast": reason} for place, reason in reasons.items()},
    )


def test_each_node_is_told_with_who_left_it_and_why() -> None:
    partitions = [
        _partition("Add NonZero", reasons={1: "no such kernel"}),
        _partition("Mul", reasons={0: "inside"}, path="loop.body"),
    ]
    assert [
        (each.graph_path, each.name, each.op_type, each.provider, each.reason, each.runs_on)
        for each in refused_nodes(partitions)
    ] == [
        ("", "n1", "NonZero", "Fast", "no such kernel", "CPU"),
        ("loop.body", "n0", "Mul", "Fast", "inside", "CPU"),
    ]


def test_reasons_for_most_nodes_come_first_with_their_operators() -> None:
    groups = refusal_groups(
        [_partition("If Loop Mod Loop If Loop", reasons={0: "a", 1: "a", 2: "b", 3: "a", 5: "a"})]
    )
    assert [(each.reason, each.node_count, each.operators_text) for each in groups] == [
        ("a", 4, "3 Loop, 1 If"),
        ("b", 1, "1 Mod"),
    ]


@pytest.mark.parametrize(
    ("reasons", "text"),
    [
        ({}, ""),
        ({0: "a", 1: "a"}, "Fast left 1 A, 1 B: a"),
        (
            {place: str(place) for place in range(6)},
            "Fast left 1 A: 0; Fast left 1 B: 1; Fast left 1 C: 2; and 3 reasons more",
        ),
        (dict.fromkeys(range(6), "a"), "Fast left 1 A, 1 B, 1 C, 1 D, and 2 more: a"),
    ],
)
def test_a_summary_names_some_reasons_and_operators(reasons: dict[int, str], text: str) -> None:
    assert refusal_summary([_partition("A B C D E F", reasons=reasons)]) == text
