"""Of two allocation plans the one with the smaller pattern is run.

Reuse by size gives way where it costs memory.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ortpkg.foundations.buffer_layout import Buffer, lay_out, least_possible_peak
from ortpkg.graph.shapes.expressions import symbol
from ortpkg.runtime.engine.allocation_planner import AllocationPlan, AllocKind, plan_allocations
from ortpkg.runtime.engine.memory_pattern import MemoryPatternGroup, trace_static_shapes
from ortpkg.runtime.engine.memory_planning import plan_memory
from ortpkg.runtime.engine.plan_verifier import verify_plan
from tests.engine.plan_factories import DEVICE, Planned

#: ``d`` takes over the place of ``a`` by size, and so keeps ``c``, which outgrows it, from lying
#: there.
TIED = "a = Conv(x)\nb = Conv(a)\nc = Conv(b)\nd = Conv(c)\ny = Conv(d)"
SIZES = {"a": 512, "b": 256, "c": 768, "d": 512}


def patterns_of(planned: Planned, allocation: AllocationPlan) -> MemoryPatternGroup:
    return trace_static_shapes(planned.plan, allocation).generate_patterns()


def test_plan_without_ties_is_taken_where_it_needs_less() -> None:
    planned = Planned(TIED, sizes=SIZES)
    tied = plan_allocations(planned.plan, planned.sizes)
    chosen = plan_memory(planned.plan, planned.sizes)
    assert tied.values[planned.plan.values.index_of("d")].alloc_kind is AllocKind.REUSE
    assert chosen.values[planned.plan.values.index_of("d")].alloc_kind is AllocKind.ALLOCATE
    assert patterns_of(planned, chosen).peak_size < patterns_of(planned, tied).peak_size
    verify_plan(planned.plan, chosen, patterns_of(planned, chosen))


def test_symbolic_sizes_are_compared_as_if_all_symbols_were_equal() -> None:
    planned = Planned(TIED, sizes={name: size * symbol("n") for name, size in SIZES.items()})
    chosen = plan_memory(planned.plan, planned.sizes)
    assert chosen.values[planned.plan.values.index_of("d")].alloc_kind is AllocKind.ALLOCATE


@pytest.mark.parametrize(
    "changes", [{"has_pattern": False}, {"parallel": True}, {"enable_reuse": False}]
)
def test_plan_is_the_usual_one_where_nothing_will_be_laid_out(changes: dict[str, bool]) -> None:
    planned = Planned(TIED, sizes=SIZES)
    usual = {name: value for name, value in changes.items() if name != "has_pattern"}
    assert plan_memory(planned.plan, planned.sizes, **changes) == plan_allocations(
        planned.plan, planned.sizes, **usual
    )


@st.composite
def chains(draw: st.DrawFn) -> Planned:
    """Chains with skips, of values of a few sizes."""
    count = draw(st.integers(2, 14))
    lines, sizes = [], {}
    for number in range(count):
        source = draw(st.integers(max(-1, number - 4), number - 1))
        lines.append(f"v{number} = Conv({'x' if source < 0 else f'v{source}'})")
        sizes[f"v{number}"] = draw(st.sampled_from([64, 128, 256, 448, 1024]))
    return Planned("\n".join([*lines, f"y = Conv(v{count - 1})"]), sizes=sizes)


@settings(max_examples=60, deadline=None)
@given(chains())
def test_chosen_plan_is_safe_and_never_the_larger_one(planned: Planned) -> None:
    chosen = plan_memory(planned.plan, planned.sizes)
    patterns = patterns_of(planned, chosen)
    verify_plan(planned.plan, chosen, patterns)
    usual = patterns_of(planned, plan_allocations(planned.plan, planned.sizes))
    assert patterns.peak_size <= usual.peak_size


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(0, 12), st.integers(1, 40)),
        min_size=1,
        max_size=25,
    )
)
def test_layouts_in_every_order_keep_buffers_apart(drawn: list[tuple[int, int, int]]) -> None:
    buffers = [
        Buffer(owner, 64 * size, ((first, first + span),))
        for owner, (first, span, size) in enumerate(drawn)
    ]
    pattern = lay_out(buffers, DEVICE.alignment)
    assert pattern.peak_size >= least_possible_peak(buffers)
    for one in buffers:
        for other in buffers:
            if one.owner < other.owner and one.overlaps(other):
                apart = (
                    pattern.offsets[one.owner] + one.nbytes <= pattern.offsets[other.owner]
                    or pattern.offsets[other.owner] + other.nbytes <= pattern.offsets[one.owner]
                )
                assert apart
