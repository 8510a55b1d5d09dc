"""Sorts long lists block by block, so that the limits of a run end it in the middle.

numpy sorts in one call, which takes minutes for 10^8 numbers and ends for nobody.
"""

from __future__ import annotations

import numpy as np

from ortpkg.kernels.op_kernel import OpKernelContext, Tensor

_INT64 = np.dtype(np.int64)
#: Elements that numpy sorts in one call, which takes some 20 ms.
SORTED_AT_ONCE = 1 << 18

#: A list from the least to the largest, of equals the first one first, and where each was.
_Sorted = tuple[Tensor, Tensor]


def sort_nbytes(count: int, dtype: np.dtype[np.generic]) -> int:
    """What sorting a list takes while it lasts: two lists of elements and of their places."""
    return 2 * count * (dtype.itemsize + _INT64.itemsize)


def sorted_with_places(context: OpKernelContext, values: Tensor) -> _Sorted:
    """A list from the least to the largest, NaN last, and the place of each; the order is stable.

    Raises as ``context.check_cancelled``.
    """
    runs: list[_Sorted] = []
    for start in range(0, max(values.size, 1), SORTED_AT_ONCE):
        context.check_cancelled()
        block = values[start : start + SORTED_AT_ONCE]
        order = np.argsort(block, kind="stable")
        runs.append((block[order], order + start))
    while len(runs) > 1:
        pairs = zip(runs[::2], runs[1::2], strict=False)
        runs = [_merged(context, *pair) for pair in pairs] + runs[len(runs) // 2 * 2 :]
    return runs[0]


def _merged(context: OpKernelContext, left: _Sorted, right: _Sorted) -> _Sorted:
    """Two sorted lists as one; what is in ``left`` comes before its equals in ``right``."""
    count = left[0].size + right[0].size
    made = np.empty(count, left[0].dtype), np.empty(count, _INT64)
    taken = 0  # of the left list
    for start in range(0, right[0].size, SORTED_AT_ONCE):
        context.check_cancelled()
        block = slice(start, start + SORTED_AT_ONCE)
        before = np.searchsorted(left[0], right[0][block], side="right")
        end = int(before[-1])
        from_right = before - taken + np.arange(before.size)
        is_left = np.ones(end - taken + before.size, bool)
        is_left[from_right] = False
        place = slice(start + taken, start + taken + is_left.size)
        for target, lefts, rights in zip(made, left, right, strict=True):
            target[place][from_right] = rights[block]
            target[place][is_left] = lefts[taken:end]
        taken = end
    for target, lefts in zip(made, left, strict=True):
        target[right[0].size + taken :] = lefts[taken:]
    return made


def unique_elements(
    context: OpKernelContext, values: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What ``np.unique`` gives of a list: elements, first places, inverse and counts.

    A NaN equals a NaN. Raises as ``context.check_cancelled``.
    """
    ordered, places = sorted_with_places(context, values)
    is_new = np.ones(ordered.size, bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
    is_new[1:] &= (ordered[1:] == ordered[1:]) | (ordered[:-1] == ordered[:-1])
    inverse = np.empty(ordered.size, _INT64)
    inverse[places] = np.cumsum(is_new) - 1
    starts = np.flatnonzero(is_new)
    counts = np.diff(starts, append=ordered.size)
    return ordered[is_new], places[is_new], inverse, counts
