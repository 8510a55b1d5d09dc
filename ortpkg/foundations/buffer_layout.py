"""Layout of one block: an offset for each buffer, so that two in use at once share no byte.

Computes with integers only; the caller decides which buffers there are, and when they are used.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from types import MappingProxyType

#: With more buffers only the layout in the order of the steps is made; the others are quadratic.
_MOST_BUFFERS_FOR_BEST_LAYOUT = 600
#: Orders of placing buffers: large ones first, long-lived ones, those with the largest product.
_IMPORTANCES: tuple[Callable[[Buffer], int], ...] = (
    lambda buffer: buffer.nbytes,
    lambda buffer: buffer.last - buffer.first,
    lambda buffer: buffer.nbytes * (buffer.last - buffer.first + 1),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPattern:
    """The layout of one device's block.

    Attributes:
        peak_size: bytes of the block.
        offsets: buffer (index of the value that owns it) → its offset.
        sizes: buffer → bytes laid out for it.
    """

    peak_size: int
    offsets: Mapping[int, int]
    sizes: Mapping[int, int]

    def offset_of(self, buffer: int) -> int | None:
        """Return the offset of a buffer; None if the pattern does not have it."""
        return self.offsets.get(buffer)


@dataclass(frozen=True, slots=True)
class Buffer:
    """A buffer to lay out: its bytes, and the steps (both ends included) in which it is used."""

    owner: int
    nbytes: int
    intervals: tuple[tuple[int, int], ...]

    @property
    def first(self) -> int:
        """First step in which the buffer is used."""
        return self.intervals[0][0]

    @property
    def last(self) -> int:
        """Last step in which the buffer is used."""
        return self.intervals[-1][1]

    def overlaps(self, other: Buffer) -> bool:
        """Return True if both are in use at some step.

        Each interval is visited once: a long chain has thousands.
        """
        index = other_index = 0
        while index < len(self.intervals) and other_index < len(other.intervals):
            if self.intervals[index][1] < other.intervals[other_index][0]:
                index += 1
            elif other.intervals[other_index][1] < self.intervals[index][0]:
                other_index += 1
            else:
                return True
        return False


def lay_out(buffers: Sequence[Buffer], alignment: int) -> MemoryPattern:
    """Return aligned offsets for ``buffers``, so that two in use at once share no byte.

    First, best fit in the order in which the buffers begin. If it needs more than the least
    possible, best fit in other orders is tried (quadratic, so not with very many buffers), and the
    smallest is used. Of equal candidates the earlier one wins, so that equal input gives an equal
    layout.
    """
    offsets = _lay_out_by_step(buffers, alignment)
    peak = _peak(buffers, offsets, alignment)
    if len(buffers) <= _MOST_BUFFERS_FOR_BEST_LAYOUT:
        least = least_possible_peak(buffers)
        for importance in _IMPORTANCES:
            if peak <= least:
                break
            candidate = _lay_out_by_importance(buffers, alignment, importance)
            if _peak(buffers, candidate, alignment) < peak:
                offsets, peak = candidate, _peak(buffers, candidate, alignment)
    sizes = {buffer.owner: buffer.nbytes for buffer in buffers}
    return MemoryPattern(
        peak_size=peak, offsets=MappingProxyType(offsets), sizes=MappingProxyType(sizes)
    )


def least_possible_peak(buffers: Sequence[Buffer]) -> int:
    """Return the largest sum of bytes in use at one step: no layout of this order can need less."""
    changes: dict[int, int] = {}
    for buffer in buffers:
        for start, end in buffer.intervals:
            changes[start] = changes.get(start, 0) + buffer.nbytes
            changes[end + 1] = changes.get(end + 1, 0) - buffer.nbytes
    peak = live = 0
    for step in sorted(changes):
        live += changes[step]
        peak = max(peak, live)
    return peak


def _peak(buffers: Sequence[Buffer], offsets: Mapping[int, int], alignment: int) -> int:
    return max(
        (offsets[buffer.owner] + _aligned(buffer.nbytes, alignment) for buffer in buffers),
        default=0,
    )


def _lay_out_by_importance(
    buffers: Sequence[Buffer], alignment: int, importance: Callable[[Buffer], int]
) -> dict[int, int]:
    placed: list[tuple[int, int, int, int, Buffer]] = []
    offsets: dict[int, int] = {}
    for buffer in sorted(
        buffers,
        key=lambda buffer: (-importance(buffer), -buffer.nbytes, buffer.first, buffer.owner),
    ):
        begin, last = buffer.first, buffer.last
        occupied = [
            (offset, end)
            for offset, end, other_begin, other_last, other in placed
            if other_begin <= last and begin <= other_last and buffer.overlaps(other)
        ]
        need = _aligned(buffer.nbytes, alignment)
        offset = _best_gap(occupied, need)
        offsets[buffer.owner] = offset
        insort(placed, (offset, offset + need, begin, last, buffer), key=lambda entry: entry[:2])
    return offsets


def _best_gap(occupied: Sequence[tuple[int, int]], need: int) -> int:
    """Return the start of the smallest gap of ``need`` bytes between ranges sorted by start."""
    best: int | None = None
    best_size = 0
    reached = 0
    for start, end in occupied:
        gap = start - reached
        if gap >= need and (best is None or gap < best_size):
            best, best_size = reached, gap
        reached = max(reached, end)
    return reached if best is None else best


def _lay_out_by_step(buffers: Sequence[Buffer], alignment: int) -> dict[int, int]:
    """Allocate and free in the order of the steps.

    A buffer keeps its offset from its first step to its last.
    """
    free = _FreeRanges()
    ending: list[tuple[int, int, int]] = []
    offsets: dict[int, int] = {}
    for buffer in sorted(buffers, key=lambda buffer: (buffer.first, -buffer.nbytes, buffer.owner)):
        while ending and ending[0][0] < buffer.first:
            _, offset, need = heappop(ending)
            free.give_back(offset, need)
        need = _aligned(buffer.nbytes, alignment)
        if not need:  # nothing to take, and no free range to give back
            offsets[buffer.owner] = 0
            continue
        offsets[buffer.owner] = free.take(need)
        heappush(ending, (buffer.last, offsets[buffer.owner], need))
    return offsets


class _FreeRanges:
    """Free ranges below the highest byte in use, sorted by start, none adjacent to another."""

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = []
        # The same as (bytes, start), smallest first: there may be thousands, all of them too small.
        self._by_size: list[tuple[int, int]] = []
        self._top = 0

    def take(self, need: int) -> int:
        """Return the start of the smallest free range of ``need`` bytes.

        If there is none, return the end of the used ranges.
        """
        fitting = bisect_left(self._by_size, (need, 0))
        if fitting < len(self._by_size):
            _, start = self._by_size[fitting]
            _, end = self._remove(bisect_left(self._ranges, (start, 0)))
            if end - start > need:
                self._add(start + need, end)
            return start
        start = self._top
        if self._ranges and self._ranges[-1][1] == self._top:
            start, _ = self._remove(len(self._ranges) - 1)
        self._top = start + need
        return start

    def give_back(self, start: int, nbytes: int) -> None:
        """Free a range, and join it with adjacent free ranges."""
        end = start + nbytes
        position = bisect_left(self._ranges, (start, 0))
        if position < len(self._ranges) and self._ranges[position][0] == end:
            _, end = self._remove(position)
        if position > 0 and self._ranges[position - 1][1] == start:
            start, _ = self._remove(position - 1)
        self._add(start, end)

    def _add(self, start: int, end: int) -> None:
        insort(self._ranges, (start, end))
        insort(self._by_size, (end - start, start))

    def _remove(self, position: int) -> tuple[int, int]:
        start, end = self._ranges.pop(position)
        del self._by_size[bisect_left(self._by_size, (end - start, start))]
        return start, end


def _aligned(nbytes: int, alignment: int) -> int:
    return -(-nbytes // alignment) * alignment
