"""Folding: by modules first, by execution order where they are too many."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ortpkg.report.graph_facts import NodeFact
from ortpkg.report.graph_folding import MOST_CHILDREN, MOST_DEPTH, FoldTree, fold, scope_of
from tests.report.graph_samples import named_nodes

BERT_LAYER = [
    "/encoder/layer.0/attention/self/query/MatMul",
    "/encoder/layer.0/attention/self/query/Add",
    "/encoder/layer.0/output/MatMul",
    "/encoder/layer.1/attention/self/query/MatMul",
    "/encoder/layer.1/output/MatMul",
    "/pooler/Tanh",
    "/pooler/Gemm",
]


def labels(tree: FoldTree) -> list[str]:
    return [group.label for group in tree.groups]


def children(tree: FoldTree) -> Counter[int]:
    """How many nodes and groups lie right in each group."""
    inner = [group.parent for group in tree.groups if group.parent is not None]
    return Counter([*tree.group_of, *inner])


@pytest.mark.parametrize(
    ("name", "scope"),
    [
        ("/encoder/layer.0/MatMul", ("encoder", "layer.0")),
        ("bert/encoder/MatMul", ("bert", "encoder")),
        ("bert::encoder::MatMul", ("bert", "encoder")),
        ("model.layers.0.MatMul", ("model", "layers", "0")),
        ("/MatMul_1", ()),
        ("MatMul_1", ()),
        ("a//b/", ("a",)),
        ("///", ()),
        ("", ()),
    ],
)
def test_the_modules_of_a_name_are_what_stands_before_its_last_separator(
    name: str, scope: tuple[str, ...]
) -> None:
    assert scope_of(name) == scope


def test_modules_become_groups_in_execution_order() -> None:
    tree = fold(named_nodes(BERT_LAYER))
    assert labels(tree) == ["", "encoder", "pooler", "layer.0", "layer.1", "attention/self/query"]
    assert [group.node_count for group in tree.groups] == [7, 5, 2, 3, 2, 2]


def test_a_module_with_one_node_is_no_group() -> None:
    tree = fold(named_nodes(["/a/b/Add", "/c/Add", "/c/Mul"]))
    assert labels(tree) == ["", "c"]
    assert tree.group_of == (0, 1, 1)


def test_the_module_around_everything_is_no_group() -> None:
    tree = fold(named_nodes(["/model/a/Add", "/model/a/Mul", "/model/Sub"]))
    assert labels(tree) == ["", "a"]


def test_what_an_exporter_says_of_a_node_comes_before_its_name() -> None:
    said = [NodeFact(name=f"node_{n}", op_type="Add", scope=("block",)) for n in range(2)]
    tree = fold([*said, NodeFact(name="other/Add", op_type="Add")])
    assert labels(tree) == ["", "block"]


def test_names_without_modules_are_parted_into_runs() -> None:
    tree = fold(named_nodes([f"Add_{number}" for number in range(300)]))
    assert labels(tree) == ["", "nodes 1 to 100", "nodes 101 to 200", "nodes 201 to 300"]
    assert all(group.is_run for group in tree.groups[1:])
    assert tree.group_of == (1,) * 100 + (2,) * 100 + (3,) * 100


def test_as_many_children_as_the_limit_allows_stay_as_they_are() -> None:
    assert labels(fold(named_nodes([f"Add_{number}" for number in range(MOST_CHILDREN)]))) == [""]


def test_a_run_of_modules_is_named_by_its_first_and_its_last_node() -> None:
    names = [f"/m{number}/{name}" for number in range(MOST_CHILDREN + 2) for name in ("A", "B")]
    tree = fold(named_nodes(names))
    half = len(names) // 2
    assert labels(tree)[1:3] == [f"nodes 1 to {half}", f"nodes {half + 1} to {len(names)}"]


def test_the_names_of_modules_beyond_the_deepest_are_joined() -> None:
    modules = [f"m{number}" for number in range(MOST_DEPTH + 1)]
    names = [
        f"{'/'.join(modules[:depth])}/{name}" for depth in range(MOST_DEPTH + 2) for name in "AB"
    ]
    deepest = labels(fold(named_nodes([f"/{name}" for name in names])))[1:]
    assert deepest == [*modules[: MOST_DEPTH - 1], modules[MOST_DEPTH - 1], "/".join(modules[-2:])]


def test_runs_of_fifty_thousand_nodes_lie_in_runs() -> None:
    tree = fold(named_nodes([f"Add_{number}" for number in range(50_000)]))
    assert max(children(tree).values()) <= MOST_CHILDREN
    assert sum(group.parent == 0 for group in tree.groups) == 4


def test_a_group_says_what_is_in_it() -> None:
    nodes = [
        NodeFact(name="/a/Add", op_type="Add", provider=0, partition=2),
        NodeFact(name="/a/Add_1", op_type="Add", provider=0, partition=2),
        NodeFact(name="/b/Mul", op_type="Mul", provider=1, partition=3),
        NodeFact(name="/b/Shape", op_type="Shape"),
    ]
    whole, first, second = fold(nodes).groups
    assert whole.operators == (("Add", 2), ("Mul", 1), ("Shape", 1))
    assert whole.providers == ((0, 2), (1, 1), (None, 1))
    assert (whole.partition, first.partition, second.partition) == (None, 2, None)


def test_no_nodes_are_one_empty_group() -> None:
    tree = fold([])
    assert len(tree.groups) == 1
    assert tree.groups[0].node_count == 0


NAMES = st.lists(
    st.sampled_from(["/", "::", "."]).flatmap(
        lambda separator: st.lists(
            st.sampled_from(["a", "b", "layer.0", "x" * 50, "", "</script>", "\u202e"]),
            min_size=1,
            max_size=20,
        ).map(separator.join)
    ),
    max_size=400,
)


@given(NAMES)
def test_every_node_lies_in_one_group_and_no_group_has_too_many_children(names: list[str]) -> None:
    tree = fold(named_nodes(names))
    assert len(tree.group_of) == len(names)
    assert tree.groups[0].parent is None
    assert tree.groups[0].node_count == len(names)
    for number, group in enumerate(tree.groups[1:], start=1):
        assert group.parent is not None
        assert group.parent < number
    found = children(tree)
    assert all(count <= MOST_CHILDREN for count in found.values())
    assert all(found[number] > 1 for number in range(1, len(tree.groups)))
    for number, group in enumerate(tree.groups):
        own = tree.group_of.count(number)
        inner = sum(each.node_count for each in tree.groups if each.parent == number)
        assert group.node_count == own + inner
        assert sum(count for _, count in group.providers) == group.node_count


@given(st.integers(min_value=1, max_value=200))
def test_groups_lie_in_each_other_to_a_bounded_depth(depth: int) -> None:
    name = "/".join(f"m{number}" for number in range(depth))
    names = [f"{name}/Add", *(f"{name.rsplit('/', cut)[0]}/Mul{cut}" for cut in range(depth))]
    tree = fold(named_nodes(names))
    depths = [0] * len(tree.groups)
    for number, group in enumerate(tree.groups[1:], start=1):
        assert group.parent is not None
        depths[number] = depths[group.parent] + 1
    assert max(depths) <= MOST_DEPTH + 1
