"""A session's plan as values: what is said is what was planned."""

from __future__ import annotations

import pytest

from ortpkg.runtime.engine.allocation_planner import AllocKind
from ortpkg.runtime.session.session_plan import GraphPlan
from tests.session.conftest import session_of

CHAIN = """g (float[1000] x) => (float[1000] y) {
    a = Exp(x)
    b = Tanh(a)
    c = Add(b, x)
    d = Mul(c, a)
    e = Sigmoid(d)
    y = Sub(e, c)
}"""
DYNAMIC = CHAIN.replace("[1000]", "[N, 10]")
BRANCHES = """g (bool p, float[8] x) => (float[8] y) {
    y = If(p) <
        then_branch = t () => (float[8] a) { b = Exp(x)  a = Neg(b) },
        else_branch = e () => (float[8] c) { c = Neg(x) }
    >
}"""


def plan_of(text: str, **options: object) -> GraphPlan:
    with session_of(text, **options) as session:
        return session.get_plan().graph


@pytest.mark.requirement("M05", "M15")
def test_says_where_each_value_lies_and_how_long() -> None:
    graph = plan_of(CHAIN)
    values = {value.name: value for value in graph.values}
    assert values["x"].kind is AllocKind.PRE_EXISTING
    assert values["x"].last_step is None
    assert values["y"].kind is AllocKind.ALLOCATE_OUTPUT
    assert (values["y"].first_step, values["y"].last_step) == (5, 6)
    assert (values["a"].first_step, values["a"].last_step) == (0, 3)
    assert values["a"].nbytes == 4000
    inner = [values[name] for name in "abcde"]
    assert all(value.offset is not None and value.offset % 64 == 0 for value in inner)
    assert max((value.offset or 0) + 4000 for value in inner) <= graph.peak_nbytes


def test_no_two_values_of_different_buffers_share_bytes_while_both_live() -> None:
    values = [value for value in plan_of(CHAIN).values if value.offset is not None]
    for value in values:
        for other in values:
            if value.buffer == other.buffer:
                continue
            assert value.last_step is not None
            assert other.last_step is not None
            if value.first_step <= other.last_step and other.first_step <= value.last_step:
                assert value.offset is not None
                assert other.offset is not None
                assert value.offset + 4000 <= other.offset or other.offset + 4000 <= value.offset


def test_figures_are_ordered_least_possible_peak_unshared() -> None:
    graph = plan_of(CHAIN)
    assert 0 < graph.least_possible_nbytes <= graph.peak_nbytes < graph.unshared_nbytes == 5 * 4000
    assert graph.unknown_count == 0


def test_sizes_that_only_a_run_tells_are_texts_with_symbols() -> None:
    graph = plan_of(DYNAMIC)
    a = next(value for value in graph.values if value.name == "a")
    assert (a.nbytes, a.size, a.offset) == (None, "40*N", None)
    assert graph.unknown_count == 5
    assert graph.peak_nbytes == 0


def test_names_the_kernel_of_each_step_and_what_runs_on_the_reference() -> None:
    text = """g (float[1, 2, 6, 6] x, float[1, 4] boxes, int64[1] batch) => (float[1, 2, 2, 2] y) {
        a = Exp(x)
        y = RoiAlign <output_height = 2, output_width = 2> (a, boxes, batch)
    }"""
    nodes = plan_of(text).nodes
    assert [node.op_type for node in nodes] == ["Exp", "RoiAlign"]
    assert nodes[0].kernel == "elementwise"
    assert nodes[1].kernel == "onnx.reference"
    assert {node.provider for node in nodes} == {"CPUExecutionProvider"}


def test_subgraphs_have_plans_of_their_own() -> None:
    graph = plan_of(BRANCHES)
    assert sorted(len(subgraph.nodes) for subgraph in graph.subgraphs) == [1, 2]
    assert {subgraph.path.rpartition(".")[2] for subgraph in graph.subgraphs} == {
        "then_branch",
        "else_branch",
    }
