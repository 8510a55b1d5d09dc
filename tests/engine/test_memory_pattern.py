from __future__ import annotations

import pytest

from ortpkg.foundations.buffer_layout import MemoryPattern
from ortpkg.foundations.errors import StatusCode, UsageError
from ortpkg.graph.shapes.expressions import symbol
from ortpkg.runtime.engine.allocation_planner import AllocKind
from ortpkg.runtime.engine.execution_plan import OrtDevice
from ortpkg.runtime.engine.memory_pattern import (
    MemoryPatternGroup,
    OrtValuePatternPlanner,
    has_symbolic_sizes,
    trace_static_shapes,
)
from tests.engine.plan_factories import DEVICE, Planned

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
