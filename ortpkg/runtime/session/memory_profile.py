"""Memory use of a plan over time: bytes in use at each step, and the peak of each block.

Only values in a block count: intermediate values of a known size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from ortpkg.runtime.session.session_plan import GraphPlan, PlannedValue


@dataclass(frozen=True, slots=True, kw_only=True)
class LaidOutValue:
    """A value in the block of its memory.

    Attributes:
        name: name of the value.
        device: name of the memory.
        buffer: number of its buffer, in order of first use; values that reuse one buffer have the
            same.
        offset, nbytes: offset in the block, and size, in bytes.
        first_step, last_step: first and last step of its life.
    """

    name: str
    device: str
    buffer: int
    offset: int
    nbytes: int
    first_step: int
    last_step: int

    @property
    def top(self) -> int:
        """Offset of the first byte behind it."""
        return self.offset + self.nbytes


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockPeak:
    """Size of one memory's block.

    Attributes:
        device: name of the memory.
        nbytes: the size in bytes.
        step: the step with the most bytes in use among those at which a value reaches the block's
            end; the first of several.
    """

    device: str
    nbytes: int
    step: int


def laid_out_values(graph: GraphPlan) -> tuple[LaidOutValue, ...]:
    """Return the values of ``graph`` that lie in a block, in the order in which they are made."""
    buffers: dict[tuple[str, str], int] = {}
    return tuple(
        LaidOutValue(
            name=value.name,
            device=value.device,
            buffer=buffers.setdefault((value.device, value.buffer), len(buffers)),
            offset=value.offset,
            nbytes=value.nbytes,
            first_step=value.first_step,
            last_step=_last_step(value, len(graph.nodes)),
        )
        for value in graph.values
        if value.offset is not None and value.nbytes
    )


def bytes_in_use(values: Sequence[LaidOutValue], step_count: int) -> tuple[int, ...]:
    """Return the number of bytes that hold a value at each step, all memories together.

    A buffer that one value hands to the next at a step counts once there.
    """
    changes = [0] * (step_count + 1)
    for first, end, nbytes in _buffer_lives(values):
        changes[first] += nbytes
        changes[end] -= nbytes
    return tuple(accumulate(changes[:-1]))


def block_peaks(graph: GraphPlan, values: Sequence[LaidOutValue]) -> tuple[BlockPeak, ...]:
    """Return the peak of each memory in which ``values`` lie, in order of first use."""
    by_device: dict[str, list[LaidOutValue]] = {}
    for value in values:
        by_device.setdefault(value.device, []).append(value)
    peaks = []
    for device, residents in by_device.items():
        top = max(value.top for value in residents)
        in_use = bytes_in_use(residents, len(graph.nodes))
        steps = {
            step
            for value in residents
            if value.top == top
            for step in range(value.first_step, value.last_step + 1)
        }
        # The pattern's own size ends at a multiple of the alignment.
        nbytes = max(graph.peaks.get(device, 0), top)
        step = max(steps, key=lambda step: (in_use[step], -step))
        peaks.append(BlockPeak(device=device, nbytes=nbytes, step=step))
    return tuple(peaks)


def _last_step(value: PlannedValue, step_count: int) -> int:
    final = max(step_count - 1, 0)
    return final if value.last_step is None else min(value.last_step, final)


def _buffer_lives(values: Sequence[LaidOutValue]) -> Iterator[tuple[int, int, int]]:
    """Yield (first step, step after the last, bytes) of each interval in which a buffer is held."""
    buffers: dict[int, list[LaidOutValue]] = {}
    for value in values:
        buffers.setdefault(value.buffer, []).append(value)
    for held in buffers.values():
        nbytes = max(value.nbytes for value in held)
        held.sort(key=lambda value: value.first_step)
        first, end = held[0].first_step, held[0].last_step + 1
        for value in held[1:]:
            if value.first_step > end:
                yield first, end, nbytes
                first = value.first_step
            end = max(end, value.last_step + 1)
        yield first, end, nbytes
