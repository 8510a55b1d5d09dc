"""Sorting of long lists block by block, so that the limits of a run can end it in the middle.

numpy sorts in one call, which takes minutes for 10^8 numbers and cannot be interrupted.
"""

from __future__ import annotations

import numpy as np

from ortpkg.runtime.kernels.op_kernel import OpKernelContext, Tensor

_INT64 = np.dtype(np.int64)
#: Most elements that numpy sorts in one call, which takes some 20 ms.
SORTED_AT_ONCE = 1 << 18

#: A list in ascending order, stable, and the index that each element had before.
_Sorted = tuple[Tensor, Tensor]


def sort_nbytes(count: int, dtype: np.dtype[np.generic]) -> int:
    """Return the peak memory of sorting in bytes: two copies of the elements and their indices."""
    return 2 * count * (dtype.itemsize + _INT64.itemsize)


def sorted_with_indices(context: OpKernelContext, values: Tensor) -> _Sorted:
    """Return a list in ascending order, NaN last, and the index of each element; stable.

    Raises like ``context.check_cancelled``.
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
    """Merge two sorted lists; elements of ``left`` come before equal ones of ``right``."""
    count = left[0].size + right[0].size
    merged = np.empty(count, left[0].dtype), np.empty(count, _INT64)
    left_count = 0  # of the left list
    for start in range(0, right[0].size, SORTED_AT_ONCE):
        context.check_cancelled()
        block = slice(start, start + SORTED_AT_ONCE)
        before = np.searchsorted(left[0], right[0][block], side="right")
        end = int(before[-1])
        from_right = before - left_count + np.arange(before.size)
        is_left = np.ones(end - left_count + before.size, bool)
        is_left[from_right] = False
        merged_block = slice(start + left_count, start + left_count + is_left.size)
        for target, lefts, rights in zip(merged, left, right, strict=True):
            target[merged_block][from_right] = rights[block]
            target[merged_block][is_left] = lefts[left_count:end]
        left_count = end
    for target, lefts in zip(merged, left, strict=True):
        target[right[0].size + left_count :] = lefts[left_count:]
    return merged


def unique_elements(
    context: OpKernelContext, values: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return ``np.unique`` of a list: elements, first indices, inverse and counts.

    A NaN equals a NaN. Raises like ``context.check_cancelled``.
    """
    ordered, indices = sorted_with_indices(context, values)
    is_new = np.ones(ordered.size, bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
    is_new[1:] &= (ordered[1:] == ordered[1:]) | (ordered[:-1] == ordered[:-1])
    inverse = np.empty(ordered.size, _INT64)
    inverse[indices] = np.cumsum(is_new) - 1
    starts = np.flatnonzero(is_new)
    counts = np.diff(starts, append=ordered.size)
    return ordered[is_new], indices[is_new], inverse, counts
