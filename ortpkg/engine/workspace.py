"""The memory that a run computes in: blocks laid out by a memory pattern, kept between runs, never shared by two.

A *workspace* is one set of blocks with the arrays cut out of them. A run takes one, and gives it back when it is done;
two runs at the same time have two. The arrays are made once, so that in the steady state a kernel's output costs a
list access.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ortpkg.engine.allocation_planner import AllocationPlan
from ortpkg.engine.execution_plan import OrtDevice
from ortpkg.engine.memory_pattern import MemoryPatternGroup
from ortpkg.errors import PlanVerificationError
from ortpkg.kernels.device_tensor import DeviceTensor

#: So many sets of input shapes keep their pattern and their blocks; the one not used for longest goes first.
MOST_SIGNATURES = 8

#: A block of a device's memory: an array of bytes where the CPU reads it, else what its allocator understands.
AllocateBlock = Callable[[OrtDevice, int], Any]


def tensor_at(location: OrtDevice, block: Any, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """The tensor at ``offset`` of a block: an array, or a DeviceTensor where the CPU cannot read the memory."""
    if not location.is_host_accessible:
        return DeviceTensor(memory=location.name, block=block, offset=offset, shape=shape, dtype=dtype)
    return np.ndarray(shape, dtype, buffer=block, offset=offset)


class Workspace:
    """Blocks of one memory pattern, and the arrays cut out of them so far.

    Attributes:
        patterns: what the blocks are laid out by.
        views: by value index: the array that the value's kernel got last; None for none yet.
        nbytes: of all blocks together.
    """

    __slots__ = ("_allocation", "_blocks", "nbytes", "patterns", "views")

    def __init__(self, allocation: AllocationPlan, patterns: MemoryPatternGroup, allocate: AllocateBlock) -> None:
        self._allocation = allocation
        self.patterns = patterns
        self._blocks = {
            location: allocate(location, pattern.peak_size)
            for location, pattern in zip(patterns.locations, patterns.patterns, strict=True)
            if pattern.peak_size
        }
        self.views: list[Any] = [None] * len(allocation.values)
        self.nbytes = patterns.peak_size

    def has_room(self, value_index: int, nbytes: int) -> bool:
        """Whether the pattern keeps at least ``nbytes`` bytes for the buffer that the value lies in."""
        value = self._allocation.values[value_index]
        pattern = self.patterns.pattern_of(value.location)
        return pattern is not None and 0 < nbytes <= pattern.sizes.get(value.reused_buffer, 0)

    def cut(self, value_index: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """The tensor of a value for which there is room, in its place in the block.

        Raises PlanVerificationError where the pattern has no place for the value.
        """
        value = self._allocation.values[value_index]
        pattern = self.patterns.pattern_of(value.location)
        if pattern is None or value.location not in self._blocks:
            raise PlanVerificationError(f"there is no memory pattern for device {value.location.name}")
        offset = pattern.offset_of(value.reused_buffer)
        if offset is None:
            raise PlanVerificationError(f"the memory pattern has no offset for value {value_index}")
        tensor = tensor_at(value.location, self._blocks[value.location], offset, shape, dtype)
        self.views[value_index] = tensor
        return tensor


@dataclass(slots=True)
class _Signature:
    patterns: MemoryPatternGroup
    idle: list[Workspace] = field(default_factory=list)


class WorkspacePool:
    """Patterns by signature of the input shapes, with their idle workspaces. Safe for threads."""

    def __init__(self, allocation: AllocationPlan, allocate: AllocateBlock, *, keeps_blocks: bool = True) -> None:
        """``keeps_blocks``: whether blocks outlive the run (``enable_cpu_mem_arena``)."""
        self._allocation = allocation
        self._allocate = allocate
        self._keeps_blocks = keeps_blocks
        self._signatures: OrderedDict[Hashable, _Signature] = OrderedDict()
        self._lock = threading.Lock()

    def patterns_of(self, signature: Hashable) -> MemoryPatternGroup | None:
        """The pattern of a signature; None where no run has traced it yet (or it was long ago)."""
        with self._lock:
            known = self._signatures.get(signature)
            if known is None:
                return None
            self._signatures.move_to_end(signature)
            return known.patterns

    def add_pattern(self, signature: Hashable, patterns: MemoryPatternGroup) -> None:
        """Keeps a pattern; the one not used for longest goes where there are too many."""
        with self._lock:
            self._signatures.setdefault(signature, _Signature(patterns))
            self._signatures.move_to_end(signature)
            while len(self._signatures) > MOST_SIGNATURES:
                self._signatures.popitem(last=False)

    def take(self, signature: Hashable, patterns: MemoryPatternGroup) -> Workspace:
        """A workspace of ``patterns`` for the caller alone: an idle one of the signature, or a new one."""
        with self._lock:
            known = self._signatures.get(signature)
            if known is not None and known.patterns is patterns and known.idle:
                return known.idle.pop()
        return Workspace(self._allocation, patterns, self._allocate)

    def give_back(self, signature: Hashable, workspace: Workspace) -> None:
        """Ends the caller's use of ``workspace``."""
        if not self._keeps_blocks:
            return
        with self._lock:
            known = self._signatures.get(signature)
            if known is not None and known.patterns is workspace.patterns:
                known.idle.append(workspace)

    def clear(self) -> None:
        """Forgets all idle blocks; patterns stay."""
        with self._lock:
            for known in self._signatures.values():
                known.idle.clear()
