from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ortpkg.foundations.buffer_layout import MemoryPattern
from ortpkg.foundations.errors import PlanVerificationError, StatusCode
from ortpkg.runtime.engine.execution_plan import OrtDevice
from ortpkg.runtime.engine.memory_pattern import MemoryPatternGroup, trace_static_shapes
from ortpkg.runtime.engine.size_classes import STATIC_CLASS, SizeClass
from ortpkg.runtime.engine.workspace import MOST_CLASSES, Workspace, WorkspacePool
from tests.engine.plan_factories import DEVICE, Planned

FLOAT = np.dtype(np.float32)
PLANNED = Planned("a = Conv(x)\nb = Conv(a)\ny = Conv(b)")
PATTERNS = trace_static_shapes(PLANNED.plan, PLANNED.allocation).generate_patterns()
A, B = (PLANNED.plan.values.index_of(name) for name in "ab")


def allocate(_device: OrtDevice, nbytes: int) -> Any:
    return np.zeros(nbytes, np.uint8)


def pool_of(*, keeps_blocks: bool = True) -> WorkspacePool:
    return WorkspacePool(PLANNED.allocation, allocate, keeps_blocks=keeps_blocks)


@pytest.mark.requirement("M17")
def test_allocation_is_an_offset_into_one_block() -> None:
    workspace = Workspace(PLANNED.allocation, PATTERNS, allocate)
    first, second = workspace.cut(A, (8, 8), FLOAT), workspace.cut(B, (64,), FLOAT)
    assert first.base is second.base
    assert first.ctypes.data != second.ctypes.data
    assert workspace.views[A] is first


@pytest.mark.requirement("M17")
def test_value_without_an_offset_is_an_inconsistency() -> None:
    empty = MemoryPattern(peak_size=64, offsets={}, sizes={})
    workspace = Workspace(
        PLANNED.allocation, MemoryPatternGroup(locations=(DEVICE,), patterns=(empty,)), allocate
    )
    with pytest.raises(PlanVerificationError, match="no offset for value") as caught:
        workspace.cut(A, (64,), FLOAT)
    assert caught.value.code is StatusCode.FAIL


@pytest.mark.requirement("M17")
def test_device_without_a_pattern_is_an_inconsistency() -> None:
    workspace = Workspace(
        PLANNED.allocation, MemoryPatternGroup(locations=(), patterns=()), allocate
    )
    assert not workspace.has_room(A, 4)
    with pytest.raises(PlanVerificationError, match="no memory pattern for device Fake"):
        workspace.cut(A, (64,), FLOAT)


def test_room_is_what_the_pattern_laid_out() -> None:
    workspace = Workspace(PLANNED.allocation, PATTERNS, allocate)
    assert [workspace.has_room(A, nbytes) for nbytes in (0, 1, 256, 257)] == [
        False,
        True,
        True,
        False,
    ]


def test_a_pattern_that_states_no_size_has_no_room() -> None:
    unsized = MemoryPattern(peak_size=64, offsets={A: 0}, sizes={})
    workspace = Workspace(
        PLANNED.allocation, MemoryPatternGroup(locations=(DEVICE,), patterns=(unsized,)), allocate
    )
    assert not workspace.has_room(A, 1)


def test_two_runs_at_a_time_have_two_workspaces_and_the_next_gets_one_back() -> None:
    pool = pool_of()
    entry = pool.add(STATIC_CLASS, PATTERNS)
    first, second = pool.take(entry), pool.take(entry)
    assert first is not second
    pool.give_back(entry, second)
    assert pool.take(entry) is second


def test_without_an_arena_blocks_end_with_their_run() -> None:
    pool = pool_of(keeps_blocks=False)
    entry = pool.add(STATIC_CLASS, PATTERNS)
    workspace = pool.take(entry)
    pool.give_back(entry, workspace)
    assert pool.take(entry) is not workspace


def test_cleared_blocks_are_gone_and_their_classes_stay() -> None:
    pool = pool_of()
    entries = [pool.add(STATIC_CLASS, PATTERNS), pool.add(SizeClass((1,), (2,)), PATTERNS)]
    idle = [pool.take(entry) for entry in entries]
    for entry, workspace in zip(entries, idle, strict=True):
        pool.give_back(entry, workspace)
    classes = pool.classes

    pool.clear()

    assert pool.classes == classes
    assert all(
        pool.take(entry) is not workspace for entry, workspace in zip(entries, idle, strict=True)
    )


def test_class_not_used_for_longest_is_forgotten() -> None:
    pool = pool_of()
    entries = [pool.add(SizeClass((size,), (size,)), PATTERNS) for size in range(MOST_CLASSES)]
    assert pool.find((0,)) is entries[0]
    new = pool.add(SizeClass((90,), (99,)), PATTERNS)
    assert (pool.find((0,)), pool.find((1,)), pool.find((95,)), pool.find((100,))) == (
        entries[0],
        None,
        new,
        None,
    )
