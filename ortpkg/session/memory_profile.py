"""What a plan's memory pattern holds over time: bytes in use at each step, and blocks' peaks.

Only what lies in a block counts: intermediate values whose sizes are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from ortpkg.session.session_plan import GraphPlan, PlannedValue


@dataclass(frozen=True, slots=True, kw_only=True)
class LaidOutValue:
    """A value in the block of its memory.

    Attributes:
        name: the value's.
        device: the memory.
        buffer: number of its buffer, in order of first use; values that follow each other in one
            buffer have the same.
        offset, nbytes: where it lies in the block, and how many bytes it has.
        first_step, last_step: its life, both ends included.
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
        """The first byte above it."""
        return self.offset + self.nbytes


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockPeak:
    """How large the block of one memory is.

    Attributes:
        device: the memory.
        nbytes: the size.
        step: of those at which a value reaches up to it, the first with the most bytes in use.
    """

    device: str
    nbytes: int
    step: int


def laid_out_values(graph: GraphPlan) -> tuple[LaidOutValue, ...]:
    """The values of ``graph`` that lie in a block, in order of their making."""
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
    """How many bytes hold a value at each step, all memories together.

    A buffer that one value hands to the next at a step counts once there.
    """
    changes = [0] * (step_count + 1)
    for first, end, nbytes in _buffer_lives(values):
        changes[first] += nbytes
        changes[end] -= nbytes
    return tuple(accumulate(changes[:-1]))


def block_peaks(graph: GraphPlan, values: Sequence[LaidOutValue]) -> tuple[BlockPeak, ...]:
    """The peak of each memory that ``values`` of ``graph`` lie in, in order of first use."""
    by_device: dict[str, list[LaidOutValue]] = {}
    for value in values:
        by_device.setdefault(value.device, []).append(value)
    peaks = []
    for device, own in by_device.items():
        top = max(value.top for value in own)
        in_use = bytes_in_use(own, len(graph.nodes))
        steps = {
            step
            for value in own
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
    """(first step, step after the last, bytes) of each stretch of time that a buffer is held."""
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
