"""Memory patterns of symbolic sizes: which runs share one, that it is safe, what it costs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ortpkg.graph.shapes.expressions import Size, evaluate, symbol
from ortpkg.graph.shapes.size_operations import floor_divide, larger, smaller
from ortpkg.runtime.engine.allocation_planner import AllocationPlan
from ortpkg.runtime.engine.memory_pattern import MemoryPatternGroup
from ortpkg.runtime.engine.memory_planning import plan_memory
from ortpkg.runtime.engine.plan_verifier import verify_plan
from ortpkg.runtime.engine.size_classes import STATIC_CLASS, SizeClass, SizeClassPlanner
from ortpkg.runtime.engine.symbolic_peak import peak_formulas
from tests.engine.plan_factories import DEVICE, Planned

B, L, P = symbol("batch"), symbol("length"), symbol("past")
#: Where the symbols' values stand among the feeds.
SOURCES = {"batch": (0, 0), "length": (0, 1), "past": (1, 2)}
DECODER = "a = Conv(x)\nb = Conv(a)\nc = Conv(b, a)\nd = Conv(c)\ny = Conv(d)"
SIZES: dict[str, Size | None] = {
    "a": 4096 * B * L,
    "b": 32 * B * L * (P + L),
    "c": 4096 * B * L,
    "d": 256 * B * (P + L),
}


def planner_of(planned: Planned, **changes: Any) -> SizeClassPlanner:
    return SizeClassPlanner(planned.plan, planned.allocation, SOURCES, verifies=True, **changes)


def decoder(**sizes: Size | None) -> SizeClassPlanner:
    return planner_of(Planned(DECODER, sizes=SIZES | sizes))


def test_the_feeds_say_what_the_symbols_are() -> None:
    x, cache = np.zeros((2, 3, 8), np.float32), np.zeros((2, 4, 7), np.float32)
    assert decoder().sizes_of([x, cache]) == (2, 3, 7)


@pytest.mark.parametrize("cache", [None, [np.zeros(3)], np.zeros((2, 4))])
def test_feeds_that_do_not_say_leave_the_sizes_open(cache: Any) -> None:
    assert decoder().sizes_of([np.zeros((2, 3)), cache]) is None


def test_the_first_sizes_get_a_pattern_of_exactly_theirs() -> None:
    size_class, patterns = decoder().plan_class((2, 3, 7), [])
    assert size_class == SizeClass((2, 3, 7), (2, 3, 7))
    assert patterns.peak_size == decoder().least_peak((2, 3, 7))


def test_a_symbol_that_changes_gets_room_to_grow_and_one_that_does_not_gets_none() -> None:
    first, _ = decoder().plan_class((2, 1, 700), [])
    second, _ = decoder().plan_class((2, 1, 701), [first])
    assert second == SizeClass((2, 1, 701), (2, 1, 701 + 701 // 8))
    third, _ = decoder().plan_class((2, 1, 789), [second, first])
    assert third == SizeClass((2, 1, 789), (2, 1, 789 + 789 // 8))


def test_short_lengths_get_room_for_many_steps_where_that_is_little_memory() -> None:
    first, _ = decoder().plan_class((1, 1, 7), [])
    assert decoder().plan_class((1, 1, 8), [first])[0].high == (1, 1, 72)


def test_room_to_grow_that_costs_much_is_not_taken() -> None:
    first, _ = decoder().plan_class((1, 700, 0), [])
    size_class, patterns = decoder().plan_class((8, 800, 0), [first])
    assert size_class.covers((8, 800, 0))
    assert patterns.peak_size <= 1.2 * decoder().least_peak((8, 800, 0))


def test_what_the_symbols_do_not_say_comes_from_the_traced_run() -> None:
    planned = Planned(DECODER, sizes=SIZES | {"d": 4 * symbol("found")})
    planner = planner_of(planned)
    assert not planner.is_complete
    a, d = (planned.plan.values.index_of(name) for name in "ad")
    _, patterns = planner.plan_class((1, 1, 8), [], {a: 99999, d: 320})
    pattern = patterns.pattern_of(DEVICE)
    assert pattern is not None
    assert (pattern.sizes[a], pattern.sizes[d]) == (4096, 320)


def test_sizes_that_cannot_be_are_no_part_of_the_pattern() -> None:
    planner = decoder(a=4 * B * (P - 100), d=floor_divide(B, P))
    _, patterns = planner.plan_class((1, 1, 0), [])
    pattern = patterns.pattern_of(DEVICE)
    assert pattern is not None
    assert sorted(pattern.sizes.values()) == [32, 4096]


def test_the_class_without_symbols_covers_every_run() -> None:
    assert STATIC_CLASS.covers(())
    assert STATIC_CLASS.is_exact


# --- random graphs, random sizes ------------------------------------------------------------------

_TERMS: tuple[Size, ...] = (
    64, 1000, 4 * B, 64 * L, 4 * B * L, 32 * B * (L + P), 4 * P * L, 8 * floor_divide(L + 3, 2), 4 * larger(L, P),
    16 * smaller(L, 5), 4 * (P - L) * B,
)  # fmt: skip
_ALIGNMENT = 64
_OPERATORS = ("Conv", "Relu", "Add", "View", "Own")


@st.composite
def symbolic_graphs(draw: st.DrawFn) -> Planned:
    """Random acyclic graphs of values with sizes of three symbols.

    Views and what works in place keep their input's.
    """
    values, lines = ["x"], []
    sizes: dict[str, Size | None] = {"x": 4 * B * L}
    for number in range(draw(st.integers(1, 20))):
        op_type, name = draw(st.sampled_from(_OPERATORS)), f"v{number}"
        used = [draw(st.sampled_from(values[-5:])) for _ in range(2 if op_type == "Add" else 1)]
        lines.append(f"{name} = {op_type}({', '.join(used)})")
        keeps = op_type in ("View", "Relu", "Add")
        sizes[name] = sizes[used[0]] if keeps else draw(st.sampled_from(_TERMS))
        values.append(name)
    lines.append(f"y = Conv({values[-1]})")
    return Planned("\n".join(lines), sizes=sizes)


def largest_sums(allocation: AllocationPlan, values: dict[str, int], alignment: int = 64) -> int:
    """The most bytes that live buffers take at one step, counted without the planner's help."""
    nbytes = dict.fromkeys(allocation.buffers, 0)
    for value in allocation.values:
        if value.reused_buffer in nbytes and value.size is not None:
            size = -(-evaluate(value.size, values) // alignment) * alignment
            nbytes[value.reused_buffer] = max(nbytes[value.reused_buffer], size)
    steps = max((end for counter in allocation.buffers.values() for end in counter.ends), default=0)
    return max(
        sum(
            nbytes[owner]
            for owner, counter in allocation.buffers.items()
            if any(
                start <= step <= end
                for start, end in zip(counter.starts, counter.ends, strict=True)
            )
        )
        for step in range(steps + 1)
    )


def assert_has_room(planned: Planned, patterns: MemoryPatternGroup, values: dict[str, int]) -> None:
    """Every planned value fits into its place at these sizes."""
    pattern = patterns.pattern_of(DEVICE)
    for value in planned.allocation.values:
        if value.reused_buffer in planned.allocation.buffers and value.size is not None:
            nbytes = evaluate(value.size, values)
            assert nbytes <= 0 or (
                pattern is not None and nbytes <= pattern.sizes[value.reused_buffer]
            )


@settings(max_examples=60, deadline=None)
@given(
    planned=symbolic_graphs(),
    batch=st.integers(1, 4),
    length=st.integers(1, 9),
    past=st.integers(10, 600),
)
def test_the_largest_peak_formula_is_the_least_possible_peak(
    planned: Planned, batch: int, length: int, past: int
) -> None:
    values = {"batch": batch, "length": length, "past": past}
    formulas = peak_formulas(planned.allocation)
    if formulas:
        assert max(evaluate(each, values) for each in formulas) == largest_sums(
            planned.allocation, values, alignment=1
        )


def test_sums_that_others_are_never_below_are_left_out() -> None:
    assert peak_formulas(Planned(DECODER, sizes=SIZES).allocation) == (
        32 * B * L * (P + L) + 8192 * B * L,
        256 * B * (P + L) + 4096 * B * L,
    )


def test_sizes_that_the_symbols_do_not_say_are_in_no_formula() -> None:
    planned = Planned(
        "a = Conv(x)\nb = Conv(a)\ny = Conv(b)", sizes={"a": 4 * symbol("found"), "b": 8 * B}
    )
    assert peak_formulas(planned.allocation, {"batch"}) == (8 * B,)


@pytest.mark.requirement("M10")
@pytest.mark.requirement("M21")
@settings(max_examples=60, deadline=None)
@given(
    planned=symbolic_graphs(),
    runs=st.lists(
        st.tuples(st.integers(1, 4), st.integers(1, 9), st.integers(0, 600)), min_size=1, max_size=6
    ),
)
def test_every_pattern_is_safe_fits_and_costs_little_more_than_it_must(
    planned: Planned, runs: list[tuple[int, int, int]]
) -> None:
    planned.allocation = plan_memory(planned.plan, planned.sizes)
    planner, classes = planner_of(planned), list[SizeClass]()
    for run in runs:
        values = dict(zip(SOURCES, run, strict=True))
        size_class, patterns = planner.plan_class(run, classes)
        classes.insert(0, size_class)
        assert size_class.covers(run)
        verify_plan(planned.plan, planned.allocation, patterns)
        assert_has_room(planned, patterns, values)
        least = largest_sums(planned.allocation, values)
        # Of two or three buffers of an alignment each, one may stand beside a hole.
        assert patterns.peak_size <= _ALIGNMENT + 1.25 * (
            least + least // 8 + (0 if size_class.is_exact else 1 << 20)
        )
