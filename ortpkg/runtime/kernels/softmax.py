"""Softmax, LogSoftmax, Hardmax.

Before version 13 the axes from ``axis`` on count as one; since then it is one axis.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ortpkg.runtime.kernels.axes import element_count, normalized_axis, reshaped_view
from ortpkg.runtime.kernels.element_types import FLOATS, widened, widened_nbytes
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor
from ortpkg.runtime.kernels.special_functions import BLOCK

#: Rows up to this length are summed in their own narrow type.
MOST_NARROW_TERMS = 64
#: Bytes that a step holds for each element of a row, in several arrays.
_MOST_STEP_NBYTES = 16
#: Function f(x, out) over the last axis of two matrices; ``out`` may be ``x``.
Rows = Callable[[Tensor, Tensor], None]


def softmax_rows(x: Tensor, out: Tensor) -> None:
    """exp(x - max) / sum of it, along the last axis; ``out`` may be ``x``."""
    np.subtract(x, np.maximum.reduce(x, axis=-1, keepdims=True), out=out)
    np.exp(out, out=out)
    np.divide(out, np.add.reduce(out, axis=-1, keepdims=True), out=out)


def narrow_softmax_rows(dtype: np.dtype[Any]) -> Rows:
    """Make softmax of rows whose values are of a narrow float type, held in float32.

    Each step rounds to ``dtype``, as in the operator's function body (Sub, Exp, ReduceSum, Div) and
    the ONNX reference. Long rows are summed in float32 all the same, because a bfloat16 sum of ones
    stalls at 256.
    """

    def rows(x: Tensor, out: Tensor) -> None:
        powers = np.exp(
            (x - np.maximum.reduce(x, axis=-1, keepdims=True)).astype(dtype).astype(np.float32)
        )
        narrow = powers.astype(dtype)
        powers = narrow.astype(np.float32)
        terms = narrow if x.shape[-1] <= MOST_NARROW_TERMS else powers
        total = np.add.reduce(terms, axis=-1, keepdims=True).astype(dtype).astype(np.float32)
        np.divide(powers, total, out=out)

    return rows


def log_softmax_rows(x: Tensor, out: Tensor) -> None:
    """x - max - log(sum(exp(x - max))) along the last axis; ``out`` may be ``x``."""
    np.subtract(x, np.maximum.reduce(x, axis=-1, keepdims=True), out=out)
    total = np.add.reduce(np.exp(out), axis=-1, keepdims=True)
    np.subtract(out, np.log(total), out=out)


def hardmax_rows(x: Tensor, out: Tensor) -> None:
    """1 at the first largest element of each row, 0 elsewhere; ``out`` may be ``x``."""
    largest = np.argmax(x, axis=-1)[..., None]
    out[...] = 0
    np.put_along_axis(out, largest, 1, axis=-1)


def apply_to_rows(rows: Rows, x: Tensor, out: Tensor) -> None:
    """Apply ``rows`` to matrices, as many rows at a time as fit in cache."""
    step = max(BLOCK // max(x.shape[-1], 1), 1)
    for start in range(0, x.shape[0], step):
        rows(x[start : start + step], out[start : start + step])


def apply_along_axis(rows: Rows, x: Tensor, out: Tensor, axis: int) -> None:
    """Apply ``rows`` along one axis of two arrays of the same shape and dtype."""
    if x.size == 0:
        return
    if axis == x.ndim - 1 and x.flags.c_contiguous and out.flags.c_contiguous:
        apply_to_rows(rows, x.reshape(-1, x.shape[-1]), out.reshape(-1, x.shape[-1]))
        return
    planes = (element_count(x.shape[:axis]), x.shape[axis], element_count(x.shape[axis + 1 :]))
    source, target = x.reshape(planes), reshaped_view(out, planes)
    columns = min(max(BLOCK // planes[1], 1), planes[2])
    step = max(BLOCK // (planes[1] * columns), 1)
    for start in range(0, planes[0], step):
        for first in range(0, planes[2], columns):
            part = (slice(start, start + step), slice(None), slice(first, first + columns))
            rows(np.moveaxis(source[part], 1, -1), np.moveaxis(target[part], 1, -1))


def _step_nbytes(length: int) -> int:
    """Return the bytes of a step over rows of this length; 0 if one block holds a row."""
    return 0 if length <= BLOCK else length * _MOST_STEP_NBYTES


def _along_axis(
    info: OpKernelInfo, rows: Rows, narrow_rows: Callable[[np.dtype[Any]], Rows] | None = None
) -> Compute:
    coerced = info.node.since_version < 13
    axis = info.attribute("axis", 1 if coerced else -1)

    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        out = context.output(0, x.shape, x.dtype)
        along = x.ndim if coerced and axis == x.ndim else normalized_axis(axis, x.ndim)
        matrix = (element_count(x.shape[:along]), element_count(x.shape[along:]))
        length = matrix[1] if coerced or not x.ndim else x.shape[along]
        context.check_allocation(2 * widened_nbytes(x) + _step_nbytes(length))
        wide = widened(x)
        result = out if wide is x else np.empty(x.shape, wide.dtype)
        apply = rows if wide is x or narrow_rows is None else narrow_rows(x.dtype)
        if coerced:
            apply_along_axis(apply, wide.reshape(matrix), result.reshape(matrix), 1)
        elif x.ndim == 0:
            apply_along_axis(apply, wide.reshape(1), result.reshape(1), 0)
        else:
            apply_along_axis(apply, wide, result, along)
        if result is not out:
            np.copyto(out, result, casting="unsafe")
        return out

    return compute


@kernel("Softmax", since=(1, 11, 13), types={"T": FLOATS}, in_place=((0, 0),))
def softmax(info: OpKernelInfo) -> Compute:
    return _along_axis(info, softmax_rows, narrow_softmax_rows)


@kernel("LogSoftmax", since=(1, 11, 13), types={"T": FLOATS}, in_place=((0, 0),))
def log_softmax(info: OpKernelInfo) -> Compute:
    return _along_axis(info, log_softmax_rows)


@kernel("Hardmax", since=(1, 11, 13), types={"T": FLOATS}, in_place=((0, 0),))
def hardmax(info: OpKernelInfo) -> Compute:
    return _along_axis(info, hardmax_rows)
