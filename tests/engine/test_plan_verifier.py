"""The verifier finds what is wrong in a plan, and finds nothing wrong in what the planner makes."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ortpkg.foundations.buffer_layout import Buffer, MemoryPattern, least_possible_peak
from ortpkg.foundations.errors import PlanVerificationError
from ortpkg.graph.shapes.expressions import symbol
from ortpkg.runtime.engine import plan_verifier
from ortpkg.runtime.engine.allocation_planner import AllocKind, ProgramCounter
from ortpkg.runtime.engine.execution_plan import OrtDevice
from ortpkg.runtime.engine.memory_pattern import MemoryPatternGroup
from ortpkg.runtime.engine.memory_pattern import trace_static_shapes as trace
from ortpkg.runtime.engine.plan_verifier import verify_plan
from tests.engine.plan_factories import DEVICE, Planned

FORK = "a = Conv(x)\nb = Conv(a)\ny = Sub(a, b)"


def changed(planned: Planned, name: str, **changes: Any) -> Planned:
    """``planned`` with another plan for one value."""
    values = list(planned.allocation.values)
    index = planned.plan.values.index_of(name)
    values[index] = dataclasses.replace(values[index], **changes)
    planned.allocation = dataclasses.replace(planned.allocation, values=tuple(values))
    return planned


def in_buffer_of(planned: Planned, name: str, owner: str) -> Planned:
    return changed(
        planned, name, alloc_kind=AllocKind.REUSE, reused_buffer=planned.plan.values.index_of(owner)
    )


def assert_unsafe(
    planned: Planned, message: str, patterns: MemoryPatternGroup | None = None
) -> None:
    with pytest.raises(PlanVerificationError, match=message):
        verify_plan(planned.plan, planned.allocation, patterns)


def test_finds_a_value_written_over_one_that_is_still_needed() -> None:
    assert_unsafe(
        in_buffer_of(Planned(FORK), "b", "a"),
        "value 'b' is written at step 1 over 'a', which is still needed",
    )


def test_finds_a_value_written_over_a_weight() -> None:
    planned = Planned("a = Relu(w)\ny = Conv(a)", weights="w")
    assert_unsafe(in_buffer_of(planned, "a", "w"), "'a' is written at step 0 over 'w'")


def test_finds_a_write_in_place_that_the_kernel_does_not_offer() -> None:
    planned = Planned("a = Conv(x)\nb = Conv(a)\ny = Conv(b)")
    assert_unsafe(in_buffer_of(planned, "b", "a"), "'b' is written at step 1 over 'a'")


def test_finds_a_write_in_place_over_what_the_node_reads_twice() -> None:
    planned = Planned("a = Conv(x)\nb = Add(a, a)\ny = Conv(b)")
    assert_unsafe(in_buffer_of(planned, "b", "a"), "'b' is written at step 1 over 'a'")


def test_finds_a_release_before_the_last_use() -> None:
    planned = Planned(FORK)
    index = planned.plan.values.index_of("a")
    planned.allocation = dataclasses.replace(planned.allocation, releases=((), (index,), ()))
    assert_unsafe(planned, "'a' is released after step 1, before its last use")


def test_finds_a_buffer_given_up_before_the_last_use() -> None:
    planned = Planned(FORK)
    index = planned.plan.values.index_of("a")
    planned.allocation = dataclasses.replace(planned.allocation, buffer_releases=((), (index,), ()))
    assert_unsafe(planned, "'a' loses its buffer after step 1")


def test_finds_a_use_outside_the_planned_lifetime() -> None:
    counter = ProgramCounter()
    counter.add_start(0)
    counter.add_end(1)
    assert_unsafe(
        changed(Planned(FORK), "a", program_counter=counter),
        "'a' is used at step 2, outside its planned",
    )


def test_finds_a_buffer_that_is_not_its_owners() -> None:
    planned = in_buffer_of(in_buffer_of(Planned(FORK), "a", "b"), "b", "a")
    assert_unsafe(planned, "lies in the buffer of '[ab]', which has none of its own")


def group_of(planned: Planned, offsets: dict[str, int], *, peak: int = 4096) -> MemoryPatternGroup:
    indices = {planned.plan.values.index_of(name): offset for name, offset in offsets.items()}
    pattern = MemoryPattern(peak_size=peak, offsets=indices, sizes=dict.fromkeys(indices, 256))
    return MemoryPatternGroup(locations=(DEVICE,), patterns=(pattern,))


def test_finds_offsets_that_overlap() -> None:
    planned = Planned(FORK)
    assert_unsafe(
        planned, "'b' is written at step 1 over 'a'", group_of(planned, {"a": 0, "b": 192})
    )


def test_finds_an_offset_that_is_not_aligned() -> None:
    planned = Planned(FORK)
    assert_unsafe(
        planned, "has the offset 8, which is not aligned to 64", group_of(planned, {"a": 8})
    )


def test_finds_an_offset_outside_the_block() -> None:
    planned = Planned(FORK)
    assert_unsafe(
        planned, "does not lie within the block of 512", group_of(planned, {"a": 320}, peak=512)
    )


OPERATORS = ("Relu", "Add", "View", "Own", "Conv")


@st.composite
def random_graphs(draw: st.DrawFn) -> dict[str, Any]:
    """Random acyclic graphs: all kinds of operators, values used often or never, outputs."""
    values, lines = ["x", "w"], []
    for number in range(draw(st.integers(1, 25))):
        op_type = draw(st.sampled_from(OPERATORS))
        count = {"Add": 2, "Conv": draw(st.integers(1, 3))}.get(op_type, 1)
        used = [draw(st.sampled_from(values[-6:])) for _ in range(count)]
        made = (
            [f"v{number}", f"u{number}"]
            if op_type == "Conv" and draw(st.booleans())
            else [f"v{number}"]
        )
        lines.append(f"{', '.join(made)} = {op_type}({', '.join(used)})")
        values += made
    outputs = draw(st.lists(st.sampled_from(values[2:]), min_size=1, max_size=3, unique=True))
    choices = st.sampled_from([64, 100, 256, 1000, 4 * symbol("n"), None])
    sizes = {name: draw(choices) for name in values}
    return {"text": "\n".join(lines), "outputs": " ".join(outputs), "weights": "w", "sizes": sizes}


@pytest.mark.requirement("M10")
@settings(max_examples=150, deadline=None)
@given(graph=random_graphs(), enable_reuse=st.booleans())
def test_every_plan_is_safe(graph: dict[str, Any], enable_reuse: bool) -> None:
    for parallel in (False, True):
        planned = Planned(**graph, enable_reuse=enable_reuse, parallel=parallel)
        patterns = trace(planned.plan, planned.allocation).generate_patterns()
        verify_plan(planned.plan, planned.allocation)
        verify_plan(planned.plan, planned.allocation, patterns)


@pytest.mark.requirement("M23")
@settings(max_examples=100, deadline=None)
@given(graph=random_graphs())
def test_pattern_never_needs_more_than_every_value_alone(graph: dict[str, Any]) -> None:
    planned = Planned(**graph)
    group = trace(planned.plan, planned.allocation).generate_patterns()
    alone = sum(
        -(-value.size // 64) * 64
        for value in planned.allocation.values
        if isinstance(value.size, int) and value.alloc_kind is not AllocKind.PRE_EXISTING
    )
    pattern = group.pattern_of(DEVICE)
    assert group.peak_size <= alone
    if pattern is not None:
        counters = planned.allocation.buffers
        buffers = [
            Buffer(
                owner, size, tuple(zip(counters[owner].starts, counters[owner].ends, strict=True))
            )
            for owner, size in pattern.sizes.items()
        ]
        assert pattern.peak_size >= least_possible_peak(buffers)


FAR = OrtDevice("Far:0", 256, is_host_accessible=False)


def lying_in(planned: Planned, location: OrtDevice, *names: str) -> Planned:
    """``planned``, with values in another memory than planned."""
    locations = list(planned.plan.locations)
    for name in names:
        locations[planned.plan.values.index_of(name)] = location
        changed(planned, name, location=location)
    planned.plan = dataclasses.replace(planned.plan, locations=tuple(locations))
    return planned


@pytest.mark.requirement("D08")
def test_finds_a_value_that_is_read_where_it_does_not_lie() -> None:
    assert_unsafe(
        lying_in(Planned(FORK), FAR, "a"),
        "value 'a' lies in memory 'Far:0', but is read at step 1 in 'Cpu'",
    )


@pytest.mark.requirement("D08")
@pytest.mark.parametrize("name", ["x", "y"])
def test_finds_inputs_and_outputs_in_memory_that_the_cpu_cannot_read(name: str) -> None:
    assert_unsafe(
        lying_in(Planned(FORK), FAR, name),
        f"value '{name}' is given or handed out in memory 'Far:0'",
    )


@pytest.mark.requirement("D08")
def test_finds_a_value_in_a_buffer_of_another_memory() -> None:
    planned = Planned(
        "a = Conv(x)\nb = Conv(a)\nc = Conv(b)\ny = Conv(c)", sizes={"a": 256, "c": 256}
    )
    assert planned.buffer("c") == "a"
    other = OrtDevice("Other:0", 64, is_host_accessible=False)
    assert_unsafe(
        changed(planned, "c", location=other),
        "'c' lies in the buffer of 'a', which is in another memory",
    )


def test_a_value_is_held_against_what_shares_its_memory_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    count, asked = 200, 0
    names = [f"v{number}" for number in range(count)]
    lines = [f"{name} = Conv(x)" for name in names]
    planned = Planned("\n".join([*lines, f"y = Sum({', '.join(names)})"]))
    real = plan_verifier._Range.shares_bytes_with

    def counted(one: Any, other: Any) -> bool:
        nonlocal asked
        asked += 1
        return real(one, other)

    monkeypatch.setattr(plan_verifier._Range, "shares_bytes_with", counted)
    verify_plan(planned.plan, planned.allocation)

    assert asked <= 10 * count
