"""Blocks of memory in which runs compute: kept between runs, never shared by two of them.

A *workspace* is one set of blocks with the arrays cut out of them. A run takes one, and gives it
back when it is done; two runs at the same time have two. The arrays are created once, so that in
the steady state a kernel's output costs a list access.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ortpkg.foundations.errors import PlanVerificationError
from ortpkg.runtime.engine.allocation_planner import AllocationPlan
from ortpkg.runtime.engine.execution_plan import OrtDevice
from ortpkg.runtime.engine.memory_pattern import MemoryPatternGroup
from ortpkg.runtime.engine.size_classes import SizeClass
from ortpkg.runtime.kernels.device_tensor import DeviceTensor

#: Most classes of sizes that keep their pattern and blocks; the least recently used is dropped.
MOST_CLASSES = 8

#: Allocates a block of a device's memory: an array of bytes if the CPU can read it, else an object
#: of its allocator.
AllocateBlock = Callable[[OrtDevice, int], Any]


def tensor_at(
    location: OrtDevice, block: Any, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Any:
    """Return the tensor at ``offset`` of a block: an array, or a DeviceTensor.

    It is a DeviceTensor in memory that the CPU cannot read.
    """
    if not location.is_host_accessible:
        return DeviceTensor(
            memory=location.name, block=block, offset=offset, shape=shape, dtype=dtype
        )
    return np.ndarray(shape, dtype, buffer=block, offset=offset)


class _Location(NamedTuple):
    """Location of a value: a block, an offset in it, and the bytes reserved there."""

    location: OrtDevice
    block: Any
    offset: int
    nbytes: int


class Workspace:
    """Blocks of one memory pattern, and the arrays cut out of them so far.

    Attributes:
        patterns: layout of the blocks.
        views: by value index: the last array of the value's kernel; None for none yet.
        nbytes: bytes of all blocks together.
    """

    __slots__ = ("_allocation", "_blocks", "_location_by_value", "nbytes", "patterns", "views")

    def __init__(
        self, allocation: AllocationPlan, patterns: MemoryPatternGroup, allocate: AllocateBlock
    ) -> None:
        self._allocation = allocation
        self.patterns = patterns
        self._blocks = {
            location: allocate(location, pattern.peak_size)
            for location, pattern in zip(patterns.locations, patterns.patterns, strict=True)
            if pattern.peak_size
        }
        self._location_by_value: dict[int, _Location | None] = {}
        self.views: list[Any] = [None] * len(allocation.values)
        self.nbytes = patterns.peak_size

    def has_room(self, value_index: int, nbytes: int) -> bool:
        """Return True if the pattern reserves at least ``nbytes`` bytes for the value's buffer."""
        location = self._location_of(value_index)
        return location is not None and 0 < nbytes <= location.nbytes

    def cut(self, value_index: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """Return the tensor of a value at its location in the block.

        Raises:
            PlanVerificationError: the pattern has no location for the value.
        """
        location = self._location_of(value_index)
        if location is None:
            device = self._allocation.values[value_index].location
            if device not in self._blocks:
                raise PlanVerificationError(f"there is no memory pattern for device {device.name}")
            raise PlanVerificationError(f"the memory pattern has no offset for value {value_index}")
        tensor = tensor_at(location.location, location.block, location.offset, shape, dtype)
        self.views[value_index] = tensor
        return tensor

    def _location_of(self, value_index: int) -> _Location | None:
        try:
            return self._location_by_value[value_index]
        except KeyError:
            location = self._location_by_value[value_index] = self._find_location(value_index)
            return location

    def _find_location(self, value_index: int) -> _Location | None:
        value = self._allocation.values[value_index]
        pattern, block = self.patterns.pattern_of(value.location), self._blocks.get(value.location)
        offset = None if pattern is None else pattern.offset_of(value.reused_buffer)
        if pattern is None or offset is None or block is None:
            return None
        return _Location(value.location, block, offset, pattern.sizes.get(value.reused_buffer, 0))


@dataclass(slots=True)
class PatternEntry:
    """Data of a pool for one class of sizes.

    Attributes:
        size_class: sizes that the pattern serves.
        patterns: patterns, one per memory.
        idle: workspaces that no run uses.
    """

    size_class: SizeClass
    patterns: MemoryPatternGroup
    idle: list[Workspace] = field(default_factory=list)


class WorkspacePool:
    """Patterns by class of sizes, with their idle workspaces; safe for threads."""

    def __init__(
        self, allocation: AllocationPlan, allocate: AllocateBlock, *, keeps_blocks: bool = True
    ) -> None:
        """Create an empty pool.

        ``keeps_blocks``: True if blocks outlive the run (``enable_cpu_mem_arena``).
        """
        self._allocation = allocation
        self._allocate = allocate
        self._keeps_blocks = keeps_blocks
        self._entries: list[PatternEntry] = []
        self._lock = threading.RLock()  # a signal handler may run the session while it is held

    def find(self, sizes: Sequence[int]) -> PatternEntry | None:
        """Return the patterns for a run of these values of the symbols.

        None if no pattern serves it.
        """
        with self._lock:
            for position, entry in enumerate(self._entries):
                if entry.size_class.covers(sizes):
                    if position:
                        self._entries.insert(0, self._entries.pop(position))
                    return entry
        return None

    def add(self, size_class: SizeClass, patterns: MemoryPatternGroup) -> PatternEntry:
        """Add the patterns of a class; drop the least recently used if there are too many."""
        entry = PatternEntry(size_class, patterns)
        with self._lock:
            self._entries.insert(0, entry)
            del self._entries[MOST_CLASSES:]
        return entry

    @property
    def classes(self) -> list[SizeClass]:
        """Classes with patterns, the one used last first."""
        with self._lock:
            return [entry.size_class for entry in self._entries]

    def take(self, entry: PatternEntry) -> Workspace:
        """Return a workspace for the caller alone: an idle one, or a new one."""
        try:
            return entry.idle.pop()
        except IndexError:
            return Workspace(self._allocation, entry.patterns, self._allocate)

    def give_back(self, entry: PatternEntry, workspace: Workspace) -> None:
        """End the caller's use of ``workspace``."""
        if self._keeps_blocks:
            entry.idle.append(workspace)

    def clear(self) -> None:
        """Drop all idle blocks; patterns stay."""
        with self._lock:
            for entry in self._entries:
                entry.idle.clear()
