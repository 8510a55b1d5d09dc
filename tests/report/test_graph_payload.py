"""What the page carries of a graph: compressed texts and numbers that say the same."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ortpkg.report.graph_facts import GraphFacts, GraphStage, NodeFact
from ortpkg.report.graph_payload import packed_graph, packed_text, unpacked_text
from tests.report.graph_samples import MIXED, facts_of, model_file

HOSTILE = "</script><b>\u202e\x07\ud800"


def unpacked(facts: GraphFacts) -> dict[str, Any]:
    document = json.loads(unpacked_text(packed_graph(facts)))
    assert isinstance(document, dict)
    return document


def summed(differences: list[int]) -> list[int]:
    return list(itertools.accumulate(differences))


def chain(names: list[str]) -> GraphFacts:
    """Nodes one after the other, on a provider for each of the first two."""
    nodes = tuple(
        NodeFact(
            name=name,
            op_type="Add",
            provider=number % 2,
            partition=0,
            step=number,
            kernel="elementwise",
            inputs=(f"v{number}",),
            outputs=(f"v{number + 1}",),
        )
        for number, name in enumerate(names)
    )
    stage = GraphStage(
        nodes=nodes, values={"v0": "float32 [1]"}, inputs=("v0",), outputs=(f"v{len(names)}",)
    )
    return GraphFacts(path="", providers=("A", "B"), partitions=(), before=stage, after=None)


def test_nodes_come_back_with_values_and_types(tmp_path: Path) -> None:
    (facts,) = facts_of(model_file(tmp_path, MIXED), backend="llvm")
    document = unpacked(facts)
    texts, stage = document["texts"], document["before"]
    nodes = stage["nodes"]
    assert [texts[number] for number in summed(nodes["names"])] == [
        node.name for node in facts.before.nodes
    ]
    values = [texts[number] for number in summed(stage["values"])]
    types = [texts[number] for number in stage["types"]]
    assert dict(zip(values, types, strict=True))["m"] == "float32 [N, 4]"
    taken = iter(summed(nodes["inputs"]))
    for node, count in zip(facts.before.nodes, nodes["inputCounts"], strict=True):
        assert [values[next(taken)] for _ in range(count)] == list(node.inputs)
    assert [values[number] for number in stage["outputs"]] == ["y"]
    assert document["after"]["nodes"]["steps"] == [0]
    fused = facts.partitions[0]
    ((provider, name, count),) = document["partitions"]
    assert (provider, texts[name], count) == (fused.provider, fused.fused_node, fused.node_count)


def test_what_is_not_there_is_minus_one(tmp_path: Path) -> None:
    (facts,) = facts_of(model_file(tmp_path, MIXED))
    nodes = unpacked(facts)["before"]["nodes"]
    assert (nodes["providers"][0], nodes["partitions"][0], nodes["steps"][0]) == (-1, -1, -1)


def test_nodes_that_are_left_out_are_counted() -> None:
    stage = GraphStage(nodes=(), left_out=3, values={}, inputs=(), outputs=())
    facts = GraphFacts(path="", providers=(), partitions=(), before=stage, after=None)
    assert unpacked(facts)["before"]["leftOut"] == 3


def test_hostile_names_end_no_script_and_steer_nobody() -> None:
    facts = chain([HOSTILE, "b" * 5000])
    assert re.fullmatch(r"[A-Za-z0-9+/=]+", packed_graph(facts))
    texts = unpacked(facts)["texts"]
    assert r"</script><b>\u202e\x07\ud800" in texts
    assert all(text.isprintable() for text in texts)
    assert max(map(len, texts)) == 1000


def test_values_whose_long_names_begin_alike_stay_two() -> None:
    stage = GraphStage(
        nodes=(NodeFact(name="n", op_type="Add", inputs=("x" * 2000, "x" * 2000 + "y")),),
        values={"x" * 2000 + "y": "int8"},
        inputs=(),
        outputs=(),
    )
    facts = GraphFacts(path="", providers=(), partitions=(), before=stage, after=None)
    document = unpacked(facts)
    assert summed(document["before"]["nodes"]["inputs"]) == [0, 1]
    assert [document["texts"][number] for number in document["before"]["types"]] == ["", "int8"]


@pytest.mark.parametrize("count", [0, 1, 1000])
def test_groups_count_all_nodes(count: int) -> None:
    document = unpacked(chain([f"/block.{n // 10}/Add_{n}" for n in range(count)]))
    _, parent, is_run, nodes, _, providers, _ = document["before"]["groups"][0]
    assert (parent, is_run, nodes) == (-1, 0, count)
    assert sum(number for _, number in providers) == count


def test_fifteen_hundred_nodes_with_long_names_take_little() -> None:
    names = [
        f"/bert/encoder/layer.{n // 125}/attention/self/part_{n % 25}/MatMul_{n}"
        for n in range(1500)
    ]
    assert len(packed_graph(chain(names))) < 30_000


@given(st.text())
def test_any_text_comes_back(text: str) -> None:
    assert unpacked_text(packed_text(text)) == text.encode("utf-8", "replace").decode("utf-8")
