"""The least memory that a plan needs, as formulas of the symbols of its sizes."""

from __future__ import annotations

from collections.abc import Collection

from ortpkg.engine.allocation_planner import AllocationPlan
from ortpkg.shapes.expression_bounds import is_at_least
from ortpkg.shapes.expressions import Size, TooLargeError, symbols_of
from ortpkg.shapes.size_operations import larger, total

#: More formulas than these tell nobody anything.
_MOST_FORMULAS = 6
#: With more of which none is the largest for certain, the search ends.
_MOST_COMPARED = 64


def peak_formulas(
    allocation: AllocationPlan, symbols: Collection[str] | None = None
) -> tuple[Size, ...]:
    """Sizes, in bytes without alignment, the largest of which is the least possible peak.

    Each is the sum of the buffers in use at some step; those that another is never below are left
    out. Empty where there are no planned buffers, or too many such sums.

    Args:
        allocation: the plan.
        symbols: names that may stand in the formulas; buffers of other sizes, which only a run can
            tell, are left out. None: all.
    """
    try:
        found = _largest(_sums(allocation, _buffer_sizes(allocation, symbols)))
    except TooLargeError:
        return ()
    return found if len(found) <= _MOST_FORMULAS else ()


def _buffer_sizes(allocation: AllocationPlan, symbols: Collection[str] | None) -> dict[int, Size]:
    """Buffer → bytes that its values take in it at most."""
    sizes: dict[int, Size] = {}
    for value in allocation.values:
        size, owner = value.size, value.reused_buffer
        if size is None or owner not in allocation.buffers:
            continue
        if symbols is None or all(each.name in symbols for each in symbols_of(size)):
            sizes[owner] = larger(sizes[owner], size) if owner in sizes else size
    return sizes


def _sums(allocation: AllocationPlan, sizes: dict[int, Size]) -> list[Size]:
    """The bytes in use at each step, each sum once."""
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
    """Those that no other is always as large as."""
    found: list[Size] = []
    for size in sums:
        if any(is_at_least(other, size) for other in found):
            continue
        found = [other for other in found if not is_at_least(size, other)]
        found.append(size)
        if len(found) > _MOST_COMPARED:
            raise TooLargeError
    return tuple(size for size in found if size != 0)
