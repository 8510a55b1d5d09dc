"""TopK and Unique."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ortpkg.graph.types import ElementType
from ortpkg.runtime.kernels.axes import normalized_axis, only_number
from ortpkg.runtime.kernels.element_types import (
    BOOLEAN,
    NUMBERS,
    compute_dtype,
    widened,
    widened_nbytes,
)
from ortpkg.runtime.kernels.interruptible_sort import (
    SORTED_AT_ONCE,
    sort_nbytes,
    sorted_with_indices,
    unique_elements,
)
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor
from ortpkg.runtime.kernels.text import longest_text

_INT64 = np.dtype(np.int64)
#: Arrays of one number for each element that the search for unique elements makes.
_UNIQUE_ARRAYS = 5
#: Bytes of a text that is seen for the first time: its dictionary entry, its number, and counts.
_SEEN_TEXT_NBYTES = 200
_TEXTS_AT_ONCE = 1 << 12


def _top_k(
    context: OpKernelContext, x: Tensor, k: int, axis: int, largest: bool
) -> tuple[Tensor, Tensor]:
    """Return the k largest (or smallest) along an axis, best first, and their indices.

    Of equals the lower index comes first. NaN is largest.
    """
    along = normalized_axis(axis, x.ndim)
    if not 0 <= k <= x.shape[along]:
        raise ValueError(
            f"k is {k}, but axis {along} of shape {x.shape} has {x.shape[along]} elements"
        )
    shape = (*x.shape[:along], k, *x.shape[along + 1 :])
    values, indices = context.output(0, shape, x.dtype), context.output(1, shape, _INT64)
    if not values.size:
        return values, indices
    length, dtype = x.shape[along], compute_dtype(x.dtype)
    at_once = max(length, min(x.size, SORTED_AT_ONCE))
    # Lines side by side, the memory for sorting some of them, and the chosen elements.
    context.check_allocation(
        widened_nbytes(x)
        + x.size * dtype.itemsize
        + sort_nbytes(at_once, dtype)
        + 2 * values.size * (_INT64.itemsize + dtype.itemsize)
    )
    lines = np.moveaxis(widened(x), along, -1).reshape(-1, length)
    chosen = np.empty((len(lines), k), _INT64)
    step = max(SORTED_AT_ONCE // length, 1)
    for start in range(0, len(lines), step):
        context.check_cancelled()
        chosen[start : start + step] = _order(context, lines[start : start + step], largest)[:, :k]
    along_last = (*x.shape[:along], *x.shape[along + 1 :], k)
    np.copyto(indices, np.moveaxis(chosen.reshape(along_last), -1, along))
    np.copyto(values, np.take_along_axis(x, indices, axis=along))
    return values, indices


def _order(context: OpKernelContext, lines: Tensor, largest: bool) -> Tensor:
    """Return the indices of each line's elements, best first; of equals the lower index first."""
    # A stable ascending sort of the mirrored line, read backwards, has the lower index first among
    # equals.
    mirrored = lines[:, ::-1] if largest else lines
    if len(lines) == 1:
        order = sorted_with_indices(context, mirrored[0])[1][None]
    else:
        order = np.argsort(mirrored, axis=-1, kind="stable")
    return lines.shape[1] - 1 - order[:, ::-1] if largest else order


@kernel("TopK", since=(10, 11, 24), types={"T": NUMBERS})
def top_k(info: OpKernelInfo) -> Compute:
    """Largest or smallest elements, always sorted, which ``sorted=0`` allows."""
    axis, largest = info.attribute("axis", -1), bool(info.attribute("largest", 1))
    return lambda context, x, k: _top_k(context, x, int(only_number(k, "k").item()), axis, largest)


@kernel("TopK", since=(1,), types={"T": NUMBERS})
def top_k_by_attribute(info: OpKernelInfo) -> Compute:
    axis, k = info.attribute("axis", -1), info.attribute("k")
    return lambda context, x: _top_k(context, x, k, axis, True)


def _unique_texts(context: OpKernelContext, x: Tensor, *, in_order: bool) -> tuple[Tensor, ...]:
    """Return the outputs of Unique for a list of texts."""
    context.check_allocation(x.size * _SEEN_TEXT_NBYTES)
    numbers: dict[str, int] = {}
    inverse = np.empty(x.size, _INT64)
    for start in range(0, x.size, _TEXTS_AT_ONCE):
        context.check_cancelled()
        block = slice(start, start + _TEXTS_AT_ONCE)
        inverse[block] = [numbers.setdefault(text, len(numbers)) for text in x[block].tolist()]
    values = np.array(list(numbers), dtype=object)
    first = np.empty(len(values), _INT64)
    first[inverse[::-1]] = np.arange(x.size)[::-1]  # the last one to be written is the first
    counts = np.bincount(inverse, minlength=len(values)).astype(_INT64, copy=False)
    if in_order:
        return values, first, inverse, counts
    order = np.argsort(values, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    return values[order], first[order], rank[inverse], counts[order]


def _unique_slices(context: OpKernelContext, x: Tensor, axis: int) -> tuple[Tensor, ...]:
    """Return ``np.unique`` along ``axis``, computed column by column.

    As there, a NaN equals a NaN in a list, and slices of several dimensions with one equal none.
    numpy sorts slices as records, in one call that no time limit ends, and five times as long.
    """
    n_columns = math.prod(x.shape[:axis] + x.shape[axis + 1 :])
    slices = np.moveaxis(x, axis, 0).reshape(x.shape[axis], n_columns)
    rank = np.zeros(len(slices), _INT64)  # of each slice among those of its columns so far
    has_nan = np.zeros(len(slices), bool)
    for column in slices.T:
        context.check_cancelled()
        rank = _refined(context, rank, column)
        if rank.max(initial=-1) == len(slices) - 1:  # further columns change no order
            break
        has_nan |= column != column  # of texts, too, which np.isnan refuses
    if x.ndim > 1 and has_nan.any():
        rank = _refined(context, rank, np.where(has_nan, np.arange(1, len(slices) + 1), 0))
    _, first, _, counts = unique_elements(context, rank)
    return np.take(x, first, axis), first, rank, counts


def _refined(context: OpKernelContext, rank: Tensor, column: Tensor) -> Tensor:
    """Return ranks by ``rank``, and by ``column`` among equals."""
    values, _, codes, _ = unique_elements(context, column)
    if len(values) == 1:
        return rank
    return unique_elements(context, rank * len(values) + codes)[2]


@kernel(
    "Unique",
    since=(11, 28),
    types={"T": NUMBERS | BOOLEAN | {ElementType.STRING}},
    uses_output_buffer=False,
)
def unique(info: OpKernelInfo) -> Compute:
    axis, in_order = info.attribute("axis"), not bool(info.attribute("sorted", 1))
    n_outputs = len(info.node.outputs)

    def compute(context: OpKernelContext, x: Tensor) -> Any:
        if axis is None and x.dtype == object:
            outputs = _unique_texts(context, x.ravel(), in_order=in_order)
            return outputs[:n_outputs] if n_outputs > 1 else outputs[0]
        along = None if axis is None else normalized_axis(axis, x.ndim)
        count = x.size if along is None else x.shape[along]
        # Each of numpy's own strings is as large as the longest, and they are sorted in a copy.
        nbytes = 8 * x.size * longest_text(x) if x.dtype == object else 2 * x.nbytes
        arrays = _UNIQUE_ARRAYS if along is None else 2 * _UNIQUE_ARRAYS  # rows sort as records
        context.check_allocation(
            nbytes + widened_nbytes(x) + arrays * max(x.size, count) * _INT64.itemsize
        )
        # Strings sort as numpy's own fixed-width strings, which np.unique can compare along an axis
        # too.
        comparable = x.astype(np.str_) if x.dtype == object else widened(x)
        values, first, inverse, counts = (
            unique_elements(context, comparable.reshape(-1))
            if along is None
            else _unique_slices(context, comparable, along)
        )
        if in_order:
            order = np.argsort(first, kind="stable")
            rank = np.empty_like(order)
            rank[order] = np.arange(order.size)
            first, counts, inverse = first[order], counts[order], rank[inverse]
            values = np.take(values, order, axis=along or 0)
        outputs = (
            values.astype(x.dtype),
            *(part.astype(_INT64) for part in (first, inverse, counts)),
        )
        return outputs[:n_outputs] if n_outputs > 1 else outputs[0]

    return compute
