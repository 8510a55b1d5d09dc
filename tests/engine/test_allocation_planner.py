from __future__ import annotations

import pytest

from ortpkg.foundations.errors import PlanVerificationError
from ortpkg.graph.shapes.expressions import symbol
from ortpkg.runtime.engine.allocation_planner import AllocKind, ProgramCounter, compute_use_counts
from tests.engine.plan_factories import Planned, execution_plan_of, graph_of

CHAIN = """
    a = Conv(x)
    b = Conv(a)
    c = Conv(b)
    y = Conv(c)
"""


@pytest.mark.requirement("M06")
def test_each_value_gets_the_kind_that_its_role_means() -> None:
    planned = Planned("a = Conv(x, w)\nb = Relu(a)\ny = Conv(b)", weights="w")
    kinds = {name: planned.kind(name) for name in "xwaby"}
    assert kinds == {
        "x": AllocKind.PRE_EXISTING,
        "w": AllocKind.ALLOCATE_STATICALLY,
        "a": AllocKind.ALLOCATE,
        "b": AllocKind.REUSE,
        "y": AllocKind.ALLOCATE_OUTPUT,
    }


@pytest.mark.requirement("M05")
def test_value_has_location_buffer_and_program_counter() -> None:
    planned = Planned("a = Conv(x)\nb = Relu(a)\ny = Conv(b)")
    value = planned.allocation.values[planned.plan.values.index_of("b")]
    assert (value.location.name, planned.buffer("b"), value.program_counter.starts) == (
        "Fake",
        "a",
        (1,),
    )


@pytest.mark.requirement("M08")
def test_outputs_count_their_producer_and_each_use() -> None:
    plan = execution_plan_of(graph_of("a = Conv(x)\nb = Add(a, a)\nunused = Relu(b)\ny = Relu(b)"))
    counts = dict(zip("xabuy", compute_use_counts(plan), strict=True))
    assert {name: counts[name] for name in "abuy"} == {"a": 3, "b": 3, "u": 1, "y": 2}
    assert counts["x"] > 10**9


@pytest.mark.requirement("M09")
def test_lifetime_is_from_producer_to_last_use() -> None:
    planned = Planned("a = Conv(x)\nb = Conv(a)\ny = Add(b, a)")
    assert (planned.lifetime("a"), planned.lifetime("b")) == (((0,), (2,)), ((1,), (2,)))


@pytest.mark.requirement("M09")
def test_graph_output_lives_to_the_end() -> None:
    assert Planned("y = Conv(x)\nz = Conv(y)", outputs="y z").lifetime("y") == ((0,), (2,))


@pytest.mark.requirement("M08")
def test_inputs_and_weights_have_no_end() -> None:
    planned = Planned("y = Conv(x, w)", weights="w")
    assert (planned.lifetime("x"), planned.lifetime("w")) == (((0,), ()), ((0,), ()))


def test_output_that_nobody_uses_dies_with_its_node() -> None:
    assert Planned("a, b = Split(x)\ny = Conv(a)").released(0) == ["b"]


@pytest.mark.requirement("M10")
def test_buffer_of_a_dead_value_is_taken_by_one_of_the_same_size() -> None:
    planned = Planned(CHAIN)
    assert [planned.buffer(name) for name in "abc"] == ["a", "b", "a"]


def test_buffer_of_another_size_is_not_taken() -> None:
    assert Planned(CHAIN, sizes={"c": 512}).kind("c") is AllocKind.ALLOCATE


def test_symbolic_sizes_that_are_equal_share_a_buffer() -> None:
    batch, length = symbol("batch"), symbol("length")
    planned = Planned(
        CHAIN, default=4 * batch * (length + 1), sizes={"c": 4 * batch + length * batch * 4}
    )
    assert planned.buffer("c") == "a"


def test_symbolic_sizes_that_may_differ_do_not() -> None:
    planned = Planned(CHAIN, default=4 * symbol("batch"), sizes={"c": 4 * symbol("length")})
    assert planned.kind("c") is AllocKind.ALLOCATE


@pytest.mark.requirement("M16")
def test_without_reuse_only_views_share() -> None:
    planned = Planned(
        "a = Conv(x)\nb = Relu(a)\nc = View(b)\nd = Conv(c)\ny = Conv(d)", enable_reuse=False
    )
    assert [planned.kind(name).value for name in "abcd"] == [
        "allocate",
        "allocate",
        "reuse",
        "allocate",
    ]


def test_node_writes_over_an_input_that_dies_there() -> None:
    assert Planned("a = Conv(x)\nb = Relu(a)\ny = Conv(b)").buffer("b") == "a"


def test_node_does_not_write_over_an_input_that_is_used_later() -> None:
    assert Planned("a = Conv(x)\nb = Relu(a)\ny = Add(b, a)").kind("b") is AllocKind.ALLOCATE


def test_node_does_not_write_over_an_input_that_it_reads_twice() -> None:
    assert Planned("a = Conv(x)\nb = Add(a, a)\ny = Conv(b)").kind("b") is AllocKind.ALLOCATE


@pytest.mark.parametrize("source", ["x", "w"])
def test_node_does_not_write_over_what_the_graph_was_given(source: str) -> None:
    planned = Planned(f"a = View({source})\nb = Relu(a)\ny = Conv(b)", weights="w")
    assert (planned.buffer("a"), planned.kind("b")) == (source, AllocKind.ALLOCATE)


def test_view_keeps_the_buffer_alive() -> None:
    planned = Planned("a = Conv(x)\nv = View(a)\nb = Conv(x)\nc = Conv(b)\ny = Add(c, v)")
    assert [planned.kind(name).value for name in "vbc"] == ["reuse", "allocate", "allocate"]


def test_node_does_not_write_over_a_view_whose_source_is_used_later() -> None:
    planned = Planned("a = Conv(x)\nv = View(a)\nb = Relu(v)\ny = Add(b, a)")
    assert planned.kind("b") is AllocKind.ALLOCATE


def test_graph_output_has_memory_of_its_own() -> None:
    planned = Planned("a = Conv(x)\ny = Relu(a)\nz = View(y)", outputs="y z")
    assert [planned.kind(name) for name in "yz"] == [
        AllocKind.ALLOCATE_OUTPUT,
        AllocKind.ALLOCATE_OUTPUT,
    ]


def test_kernel_that_brings_its_own_memory_is_not_planned() -> None:
    planned = Planned("a = Own(x)\nb = Relu(a)\ny = Conv(b)")
    assert (planned.kind("b"), planned.allocation.values[1].size) == (AllocKind.ALLOCATE, None)


def test_parallel_execution_takes_no_dead_buffers() -> None:
    assert [Planned(CHAIN, parallel=True).kind(name).value for name in "abc"] == ["allocate"] * 3


def test_parallel_execution_writes_in_place_only_over_its_own_single_input() -> None:
    planned = Planned(
        "a = Conv(x)\nb = Relu(a)\nc = Conv(b)\nd = Relu(b)\ny = Add(c, d)", parallel=True
    )
    assert (planned.buffer("b"), planned.kind("d")) == ("a", AllocKind.ALLOCATE)


def test_buffer_is_given_up_after_its_last_taker() -> None:
    planned = Planned(CHAIN)
    owner = planned.plan.values.index_of("a")
    assert [
        step for step, owners in enumerate(planned.allocation.buffer_releases) if owner in owners
    ] == [3]
    assert (planned.allocation.buffers[owner].starts, planned.allocation.buffers[owner].ends) == (
        (0, 2),
        (1, 3),
    )


@pytest.mark.requirement("M07")
def test_program_counter_refuses_a_start_before_the_last_end() -> None:
    counter = ProgramCounter()
    counter.add_start(1)
    with pytest.raises(
        PlanVerificationError, match="starts at step 2 before the one before it has ended"
    ):
        counter.add_start(2)


@pytest.mark.requirement("M07")
def test_program_counter_refuses_an_end_without_a_start() -> None:
    with pytest.raises(PlanVerificationError, match="ends at step 3 without having started"):
        ProgramCounter().add_end(3)


@pytest.mark.requirement("M07")
def test_program_counter_never_runs_backwards() -> None:
    counter = ProgramCounter()
    counter.add_start(4)
    with pytest.raises(PlanVerificationError, match="ends at step 3, before its start at 4"):
        counter.add_end(3)


@pytest.mark.requirement("M22")
def test_allocation_is_deterministic() -> None:
    first, second = Planned(CHAIN), Planned(CHAIN)
    assert first.allocation == second.allocation
