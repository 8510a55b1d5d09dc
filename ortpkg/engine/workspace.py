"""The memory that a run computes in: blocks kept between runs, never shared by two of them.

A *workspace* is one set of blocks with the arrays cut out of them. A run takes one, and gives it
back when it is done; two runs at the same time have two. The arrays are made once, so that in the
steady state a kernel's output costs a list access.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ortpkg.engine.allocation_planner import AllocationPlan
from ortpkg.engine.execution_plan import OrtDevice
from ortpkg.engine.memory_pattern import MemoryPatternGroup
from ortpkg.engine.size_classes import SizeClass
from ortpkg.errors import PlanVerificationError
from ortpkg.kernels.device_tensor import DeviceTensor

#: So many classes of sizes keep their pattern and their blocks; the one not used for longest goes
#: first.
MOST_CLASSES = 8

#: A block of a device's memory: an array of bytes where the CPU reads it, else what its allocator
#: understands.
AllocateBlock = Callable[[OrtDevice, int], Any]


def tensor_at(
    location: OrtDevice, block: Any, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Any:
    """The tensor at ``offset`` of a block: an array, or a DeviceTensor beyond the CPU's reach."""
    if not location.is_host_accessible:
        return DeviceTensor(
            memory=location.name, block=block, offset=offset, shape=shape, dtype=dtype
        )
    return np.ndarray(shape, dtype, buffer=block, offset=offset)


class _Place(NamedTuple):
    """Where a value lies: a block, an offset in it, and how many bytes are kept there."""

    location: OrtDevice
    block: Any
    offset: int
    nbytes: int


class Workspace:
    """Blocks of one memory pattern, and the arrays cut out of them so far.

    Attributes:
        patterns: what the blocks are laid out by.
        views: by value index: the array that the value's kernel got last; None for none yet.
        nbytes: of all blocks together.
    """

    __slots__ = ("_allocation", "_blocks", "_places", "nbytes", "patterns", "views")

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
        self._places: dict[int, _Place | None] = {}
        self.views: list[Any] = [None] * len(allocation.values)
        self.nbytes = patterns.peak_size

    def has_room(self, value_index: int, nbytes: int) -> bool:
        """Whether the pattern keeps at least ``nbytes`` bytes for the value's buffer."""
        place = self._place_of(value_index)
        return place is not None and 0 < nbytes <= place.nbytes

    def cut(self, value_index: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """The tensor of a value for which there is room, in its place in the block.

        Raises PlanVerificationError where the pattern has no place for the value.
        """
        place = self._place_of(value_index)
        if place is None:
            location = self._allocation.values[value_index].location
            if location not in self._blocks:
                raise PlanVerificationError(
                    f"there is no memory pattern for device {location.name}"
                )
            raise PlanVerificationError(f"the memory pattern has no offset for value {value_index}")
        tensor = tensor_at(place.location, place.block, place.offset, shape, dtype)
        self.views[value_index] = tensor
        return tensor

    def _place_of(self, value_index: int) -> _Place | None:
        try:
            return self._places[value_index]
        except KeyError:
            place = self._places[value_index] = self._find_place(value_index)
            return place

    def _find_place(self, value_index: int) -> _Place | None:
        value = self._allocation.values[value_index]
        pattern, block = self.patterns.pattern_of(value.location), self._blocks.get(value.location)
        offset = None if pattern is None else pattern.offset_of(value.reused_buffer)
        if pattern is None or offset is None or block is None:
            return None
        return _Place(value.location, block, offset, pattern.sizes.get(value.reused_buffer, 0))


@dataclass(slots=True)
class PatternEntry:
    """What a pool keeps for a class of sizes.

    Attributes:
        size_class: which sizes its pattern serves.
        patterns: one per memory.
        idle: workspaces that nobody uses.
    """

    size_class: SizeClass
    patterns: MemoryPatternGroup
    idle: list[Workspace] = field(default_factory=list)


class WorkspacePool:
    """Patterns by class of sizes, with their idle workspaces. Many threads may use it at once."""

    def __init__(
        self, allocation: AllocationPlan, allocate: AllocateBlock, *, keeps_blocks: bool = True
    ) -> None:
        """``keeps_blocks``: whether blocks outlive the run (``enable_cpu_mem_arena``)."""
        self._allocation = allocation
        self._allocate = allocate
        self._keeps_blocks = keeps_blocks
        self._entries: list[PatternEntry] = []
        self._lock = threading.RLock()  # a signal handler may run the session while it is held

    def find(self, sizes: Sequence[int]) -> PatternEntry | None:
        """The patterns for a run of these values of the symbols.

        None where none of them serves it.
        """
        with self._lock:
            for place, entry in enumerate(self._entries):
                if entry.size_class.covers(sizes):
                    if place:
                        self._entries.insert(0, self._entries.pop(place))
                    return entry
        return None

    def add(self, size_class: SizeClass, patterns: MemoryPatternGroup) -> PatternEntry:
        """Keep the patterns of a class; those not used for longest go where there are too many."""
        entry = PatternEntry(size_class, patterns)
        with self._lock:
            self._entries.insert(0, entry)
            del self._entries[MOST_CLASSES:]
        return entry

    @property
    def classes(self) -> list[SizeClass]:
        """The classes that there are patterns for, the one used last first."""
        with self._lock:
            return [entry.size_class for entry in self._entries]

    def take(self, entry: PatternEntry) -> Workspace:
        """A workspace for the caller alone: an idle one, or a new one."""
        try:
            return entry.idle.pop()
        except IndexError:
            return Workspace(self._allocation, entry.patterns, self._allocate)

    def give_back(self, entry: PatternEntry, workspace: Workspace) -> None:
        """End the caller's use of ``workspace``."""
        if self._keeps_blocks:
            entry.idle.append(workspace)

    def clear(self) -> None:
        """Forget all idle blocks; patterns stay."""
        with self._lock:
            for entry in self._entries:
                entry.idle.clear()
