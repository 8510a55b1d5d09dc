from __future__ import annotations

import itertools
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ortpkg.engine.allocation_planner import AllocKind
from ortpkg.engine.buffer_layout import Buffer, MemoryPattern, lay_out, least_possible_peak
from ortpkg.engine.execution_plan import OrtDevice
from ortpkg.engine.memory_pattern import (
    MemoryPatternGroup,
    OrtValuePatternPlanner,
    has_symbolic_sizes,
    trace_static_shapes,
)
from ortpkg.errors import StatusCode, UsageError
from ortpkg.shapes.expressions import symbol
from tests.engine.plan_factories import DEVICE, Planned
from tests.lines_run import instructions_run, lines_run

CHAIN = "a = Conv(x)\nb = Conv(a)\nc = Conv(b)\ny = Conv(c)"


def pattern_of(planned: Planned) -> MemoryPattern:
    group = trace_static_shapes(planned.plan, planned.allocation).generate_patterns()
    pattern = group.pattern_of(DEVICE)
    assert pattern is not None
    return pattern


@pytest.mark.requirement("M11")
def test_trace_says_when_how_much_and_where() -> None:
    planned = Planned(CHAIN)
    value = planned.plan.values.index_of("c")
    records = trace_static_shapes(planned.plan, planned.allocation).records()
    (record,) = (each for each in records if each.value_index == value)
    assert (record.allocation_step, record.free_step, record.nbytes) == (2, 3, 256)
    assert (record.device, record.alloc_kind) == (DEVICE, AllocKind.REUSE)


@pytest.mark.requirement("M12")
def test_frame_creation_allocation_reuse_and_release_are_traced() -> None:
    planned = Planned("a = Conv(x)\nb = Conv(a)\nc = Relu(b)\ny = Conv(c, w)", weights="w")
    index_of = planned.plan.values.index_of
    records = {
        record.value_index: record
        for record in trace_static_shapes(planned.plan, planned.allocation).records()
    }
    assert {
        name: (found.alloc_kind, found.allocation_step, found.free_step, found.reused_buffer)
        for name in "xwabc"
        for found in [records[index_of(name)]]
    } == {
        "x": (AllocKind.PRE_EXISTING, 0, 4, index_of("x")),
        "w": (AllocKind.ALLOCATE_STATICALLY, 0, 4, index_of("w")),
        "a": (AllocKind.ALLOCATE, 0, 1, index_of("a")),
        "b": (AllocKind.ALLOCATE, 1, 2, index_of("b")),
        "c": (AllocKind.REUSE, 2, 3, index_of("b")),
    }


@pytest.mark.requirement("M11")
def test_what_is_never_freed_lives_to_the_end() -> None:
    planned = Planned(CHAIN)
    planner = OrtValuePatternPlanner(planned.plan, planned.allocation)
    planner.trace_allocation(planned.plan.values.index_of("a"), 10, 0)
    assert [record.free_step for record in planner.records()] == [4]


@pytest.mark.requirement("M13")
def test_unknown_location_is_an_invalid_argument() -> None:
    planned, other = Planned(CHAIN), Planned("y = Conv(x)")
    planner = OrtValuePatternPlanner(other.plan, planned.allocation)
    del planner._traces[DEVICE]
    with pytest.raises(
        UsageError, match="lies on Fake, for which there is no pattern planner"
    ) as caught:
        planner.trace_allocation(planned.plan.values.index_of("a"), 10, 0)
    assert caught.value.code is StatusCode.INVALID_ARGUMENT


@pytest.mark.requirement("M14")
def test_group_knows_the_pattern_of_each_location() -> None:
    first, second = OrtDevice("Cpu"), OrtDevice("Gpu", 256)
    patterns = [MemoryPattern(peak_size=size, offsets={}, sizes={}) for size in (1, 2)]
    group = MemoryPatternGroup(locations=(first, second), patterns=tuple(patterns))
    assert (group.pattern_of(second), group.pattern_of(OrtDevice("Npu"))) == (patterns[1], None)
    assert group.peak_size == 3


@pytest.mark.requirement("M15")
def test_pattern_has_peak_and_offsets_and_is_safe_to_ask() -> None:
    planned = Planned(CHAIN)
    pattern = pattern_of(planned)
    assert pattern.peak_size == 512
    assert sorted(pattern.offsets.values()) == [0, 256]
    assert pattern.offset_of(12345) is None


@pytest.mark.requirement("M24")
def test_offsets_are_aligned_for_the_device() -> None:
    planned = Planned("a = Conv(x)\nb = Conv(a)\ny = Add(a, b)", default=10)
    assert sorted(pattern_of(planned).offsets.values()) == [0, 64]


@pytest.mark.requirement("M21")
def test_symbolic_sizes_wait_for_a_run() -> None:
    planned = Planned(CHAIN, sizes={"b": 4 * symbol("n")})
    assert has_symbolic_sizes(planned.allocation)
    assert planned.plan.values.index_of("b") not in pattern_of(planned).offsets
    assert not has_symbolic_sizes(Planned(CHAIN).allocation)


@pytest.mark.requirement("M23")
def test_peak_is_lower_than_without_sharing() -> None:
    shared, alone = pattern_of(Planned(CHAIN)), pattern_of(Planned(CHAIN, enable_reuse=False))
    assert shared.peak_size <= alone.peak_size < 3 * 256 + 1
    assert sum(alone.sizes.values()) == 3 * 256


def test_smallest_gap_that_fits_is_taken() -> None:
    buffers = [
        Buffer(0, 1024, ((0, 0),)),
        Buffer(1, 512, ((0, 9),)),
        Buffer(2, 256, ((0, 0),)),
        Buffer(3, 192, ((0, 9),)),
        Buffer(4, 128, ((1, 9),)),
    ]
    offsets = lay_out(buffers, 64).offsets
    assert offsets[4] == offsets[2]


def test_buffers_that_are_used_by_turns_are_compared_in_one_pass() -> None:
    count = 200
    one = Buffer(0, 64, tuple((4 * turn, 4 * turn + 1) for turn in range(count)))
    other = Buffer(1, 64, tuple((4 * turn + 2, 4 * turn + 3) for turn in range(count)))

    assert not one.overlaps(other)
    assert lines_run(lambda: one.overlaps(other)) < 20 * count
    assert one.overlaps(Buffer(2, 64, ((4 * count - 3, 4 * count - 3),)))


def test_many_gaps_that_are_too_small_cost_a_new_buffer_no_look_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ortpkg.engine.buffer_layout._MOST_BUFFERS_FOR_BEST_LAYOUT", 0)

    def comb(count: int) -> list[Buffer]:
        """Buffers of which every second one ends, then as many that fit into no gap."""
        teeth = [
            Buffer(owner, 64, ((0, 9 + count if owner % 2 else 1),)) for owner in range(2 * count)
        ]
        return teeth + [
            Buffer(2 * count + number, 128, ((number + 2, 9 + count),)) for number in range(count)
        ]

    few, more, most = (
        instructions_run(partial(lay_out, comb(count), 64)) for count in (50, 100, 150)
    )

    assert most - more < 1.02 * (more - few)


intervals = st.lists(st.integers(0, 30), min_size=2, max_size=6, unique=True).map(
    lambda steps: tuple(zip(sorted(steps)[::2], sorted(steps)[1::2], strict=False))
)
layouts = st.lists(st.tuples(st.integers(1, 5000), intervals), max_size=40).map(
    lambda parts: [Buffer(owner, *part) for owner, part in enumerate(parts)]
)


@pytest.mark.requirement("M24")
@pytest.mark.parametrize("most", [1000, 0], ids=["by size", "by step"])
@settings(max_examples=60, deadline=None)
@given(buffers=layouts)
def test_no_two_buffers_share_bytes_while_both_are_in_use(most: int, buffers: list[Buffer]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ortpkg.engine.buffer_layout._MOST_BUFFERS_FOR_BEST_LAYOUT", most)
        pattern = lay_out(buffers, 64)
    for step in range(31):
        live = [b for b in buffers if any(start <= step <= end for start, end in b.intervals)]
        ranges = sorted(
            (pattern.offsets[b.owner], pattern.offsets[b.owner] + b.nbytes) for b in live
        )
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(ranges))
        assert all(start % 64 == 0 and end <= pattern.peak_size for start, end in ranges)
    assert pattern.peak_size >= least_possible_peak(buffers)
