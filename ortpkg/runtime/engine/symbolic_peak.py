"""The least memory that a plan needs, as formulas of the symbols of its sizes."""

from __future__ import annotations

from collections.abc import Collection

from ortpkg.graph.shapes.expression_bounds import is_at_least
from ortpkg.graph.shapes.expressions import Size, TooLargeError, symbols_of
from ortpkg.graph.shapes.size_operations import larger, total
from ortpkg.runtime.engine.allocation_planner import AllocationPlan

#: More formulas than this are no help to a reader.
_MOST_FORMULAS = 6
#: The search ends when this many sums cannot be ordered.
_MOST_COMPARED = 64


def peak_formulas(
    allocation: AllocationPlan, symbols: Collection[str] | None = None
) -> tuple[Size, ...]:
    """Return sizes in bytes, without alignment; the largest is the least possible peak.

    Each is the sum of the buffers in use at some step; sums that are never above another are left
    out. Empty if there are no planned buffers, or too many such sums.

    Args:
        allocation: the plan.
        symbols: names that formulas may contain; buffers of other sizes, which only a run can tell,
            are left out. None: all.
    """
    try:
        formulas = _largest(_sums(allocation, _buffer_sizes(allocation, symbols)))
    except TooLargeError:
        return ()
    return formulas if len(formulas) <= _MOST_FORMULAS else ()


def _buffer_sizes(allocation: AllocationPlan, symbols: Collection[str] | None) -> dict[int, Size]:
    """Return buffer → most bytes that a value takes in it."""
    sizes: dict[int, Size] = {}
    for value in allocation.values:
        size, owner = value.size, value.reused_buffer
        if size is None or owner not in allocation.buffers:
            continue
        if symbols is None or all(variable.name in symbols for variable in symbols_of(size)):
            sizes[owner] = larger(sizes[owner], size) if owner in sizes else size
    return sizes


def _sums(allocation: AllocationPlan, sizes: dict[int, Size]) -> list[Size]:
    """Return the bytes in use at each step, each sum once."""
    changes: dict[int, list[Size]] = {}
    for owner, size in sizes.items():
        counter = allocation.buffers[owner]
        for start, end in zip(counter.starts, counter.ends, strict=True):
            changes.setdefault(start, []).append(size)
            changes.setdefault(end + 1, []).append(size * -1)
    live: Size = 0
    sums: dict[Size, None] = {}
    for step in sorted(changes):
        live = total(live, *changes[step])
        sums[live] = None
    return list(sums)


def _largest(sums: list[Size]) -> tuple[Size, ...]:
    """Return the sums to which no other is always at least equal."""
    largest: list[Size] = []
    for size in sums:
        if any(is_at_least(other, size) for other in largest):
            continue
        largest = [other for other in largest if not is_at_least(size, other)]
        largest.append(size)
        if len(largest) > _MOST_COMPARED:
            raise TooLargeError
    return tuple(size for size in largest if size != 0)
