"""Pooling: MaxPool, AveragePool, LpPool and their global forms.

Maxima and sums over a box are taken one axis after the other: a window of k x k costs 2k passes
instead of k².
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ortpkg.foundations.isolation.polling import poll_run
from ortpkg.graph.types import ElementType
from ortpkg.runtime.kernels.axes import element_count
from ortpkg.runtime.kernels.element_types import FLOATS, compute_dtype, widened, widened_nbytes
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor
from ortpkg.runtime.kernels.sliding_windows import SlidingWindows, WindowAttributes

_INT64 = np.dtype(np.int64)
#: Elements of the planes that are folded at a time and stay in cache.
_BLOCK = 1 << 16
#: Bytes of one position in a window that is kept in a list.
_TAP_NBYTES = 500
#: Arrays of one number for each window along an axis that counting its elements makes.
_COUNT_ARRAYS = 5
_FEW_TAPS = 10_000
#: Truth values for each window that are made while its maximum is looked for.
_FLAGS = 6


def _spatial(x: Tensor) -> tuple[int, ...]:
    if x.ndim < 3:
        raise ValueError(f"pooling needs an input (N, C, D1, ...), but the shape is {x.shape}")
    return x.shape[2:]


def _check_positions(
    context: OpKernelContext, windows: SlidingWindows, spatial: tuple[int, ...]
) -> None:
    """Raise LimitExceededError if the positions in a large window exceed the memory limit."""
    if sum(windows.kernel) > _FEW_TAPS:
        count = sum(windows.most_taps(axis, size) for axis, size in enumerate(spatial))
        context.check_allocation(count * _TAP_NBYTES)


def fold_windows(
    ufunc: np.ufunc, neutral: Any, dtype: np.dtype[Any], x: Tensor, windows: SlidingWindows
) -> Tensor:
    """Return ``ufunc`` folded over the windows of ``x``, one spatial axis after the other.

    Args:
        ufunc: a commutative and associative function of two numbers.
        neutral: its neutral number, from which each window starts.
        dtype: type of the result and of all intermediates.
        x: (planes, *spatial, ...).
        windows: windows over the spatial axes.
    """
    for axis, count in enumerate(windows.output, start=1):
        folded = np.full((*x.shape[:axis], count, *x.shape[axis + 1 :]), neutral, dtype)
        before = (slice(None),) * axis
        for outputs, inputs in windows.taps(axis - 1, x.shape[axis]):
            poll_run()
            part = folded[(*before, outputs)]
            ufunc(part, x[(*before, inputs)], out=part)
        x = folded
    return x


def planes_at_once(x: tuple[int, ...], windows: SlidingWindows) -> tuple[int, int]:
    """Return how many planes (*spatial, ...) :func:`fold_windows` takes at a time.

    Returns:
        That number, and the most elements of intermediates for each plane.
    """
    rank = len(windows.output)
    shapes = [(*windows.output[:axis], *x[axis:]) for axis in range(rank + 1)]
    largest = max(map(element_count, shapes))
    return max(_BLOCK // max(largest, 1), 1), (rank + 1) * largest


def _pooled(
    context: OpKernelContext,
    ufunc: np.ufunc,
    neutral: Any,
    x: Tensor,
    windows: SlidingWindows,
    out: Tensor,
) -> None:
    """Fold ``ufunc`` over the windows of ``x`` into ``out``, some planes at a time.

    Narrow floats are folded in float32.
    """
    if not out.size:
        return
    count = x.shape[0] * x.shape[1]
    planes, results = x.reshape(count, *x.shape[2:]), out.reshape(count, *out.shape[2:])
    dtype = compute_dtype(x.dtype)
    _check_positions(context, windows, x.shape[2:])
    step, plane_elements = planes_at_once(x.shape[2:], windows)
    context.check_allocation(plane_elements * step * dtype.itemsize)
    for start in range(0, count, step):
        context.check_cancelled()
        block = slice(start, start + step)
        results[block] = fold_windows(ufunc, neutral, dtype, planes[block], windows)


def _lowest(dtype: np.dtype[Any]) -> Any:
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


@kernel(
    "MaxPool",
    since=(1, 8, 10, 11, 12, 22),
    types={"T": FLOATS | {ElementType.INT8, ElementType.UINT8}},
)
def max_pool(info: OpKernelInfo) -> Compute:
    attributes = WindowAttributes.of(info)
    with_indices = len(info.node.outputs) > 1 and bool(info.node.outputs[1])
    column_major = bool(info.attribute("storage_order", 0))

    def compute(context: OpKernelContext, x: Tensor) -> Any:
        windows = attributes.windows(_spatial(x))
        shape = (*x.shape[:2], *windows.output)
        out = context.output(0, shape, x.dtype)
        if with_indices:
            indices = context.output(1, shape, _INT64)
            _check_positions(context, windows, x.shape[2:])
            # The number of each element; the best of each window, and flags for it.
            context.check_allocation(
                widened_nbytes(x, out)
                + (x.size + element_count(x.shape[2:])) * _INT64.itemsize
                + out.nbytes
                + _FLAGS * out.size
            )
            _max_pool_with_indices(widened(x), windows, out, indices, column_major)
            return out, indices
        _pooled(context, np.maximum, _lowest(compute_dtype(x.dtype)), x, windows, out)
        return out

    return compute


def _max_pool_with_indices(
    x: Tensor, windows: SlidingWindows, out: Tensor, indices: Tensor, column_major: bool
) -> None:
    """Write maxima and their indices; of equal maxima, the first one counts, and so of NaNs.

    Indices count over the whole input, each plane in the requested order.
    """
    spatial = x.shape[2:]
    plane = element_count(spatial)
    positions = np.arange(plane).reshape(spatial, order="F" if column_major else "C")
    numbers = positions + plane * np.arange(x.shape[0] * x.shape[1]).reshape(
        *x.shape[:2], *(1,) * len(spatial)
    )
    best = np.full(out.shape, _lowest(x.dtype), x.dtype)
    indices[...] = 0
    unseen = np.ones(out.shape, np.bool_)
    for taps in itertools.product(
        *(list(windows.taps(axis, size)) for axis, size in enumerate(spatial))
    ):
        poll_run()
        target: tuple[Any, ...] = (..., *(outputs for outputs, _ in taps))
        source: tuple[Any, ...] = (..., *(inputs for _, inputs in taps))
        values, current = x[source], best[target]
        # A NaN is no less than any number, and nothing takes its place.
        better = (~(values <= current) & (current == current)) | unseen[target]
        np.copyto(current, values, where=better)
        np.copyto(indices[target], numbers[source], where=better)
        unseen[target] = False
    np.copyto(out, best, casting="unsafe")


def _counts(
    windows: SlidingWindows, spatial: tuple[int, ...], include_pad: bool, dtype: np.dtype[Any]
) -> Tensor:
    """Return the number of elements that each window averages; ``include_pad`` counts padding."""
    total = np.ones((), dtype)
    for axis, size in enumerate(spatial):
        first, last = (windows.before[axis], windows.after[axis]) if include_pad else (0, 0)
        starts = np.arange(windows.output[axis]) * windows.strides[axis] - windows.before[axis]
        below = np.clip(-((starts + first) // windows.dilations[axis]), 0, windows.kernel[axis])
        until = np.clip(
            -((starts - size - last) // windows.dilations[axis]), 0, windows.kernel[axis]
        )
        total = total[..., None] * (until - below).astype(dtype)
    return np.maximum(total, 1)  # a window of padding alone is 0, as in onnxruntime


@kernel("AveragePool", since=(1, 7, 10, 11, 19, 22), types={"T": FLOATS})
def average_pool(info: OpKernelInfo) -> Compute:
    attributes = WindowAttributes.of(info)
    include_pad = bool(info.attribute("count_include_pad", 0))

    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        windows = attributes.windows(_spatial(x))
        out = context.output(0, (*x.shape[:2], *windows.output), x.dtype)
        most_counts = element_count(windows.output) + _COUNT_ARRAYS * max(windows.output)
        counts_nbytes = most_counts * _INT64.itemsize
        context.check_allocation(widened_nbytes(x, out) + counts_nbytes)
        wide = widened(x)
        sums = out if wide is x else np.empty(out.shape, wide.dtype)
        _pooled(context, np.add, 0, wide, windows, sums)
        np.divide(sums, _counts(windows, x.shape[2:], include_pad, sums.dtype), out=sums)
        if sums is not out:
            np.copyto(out, sums, casting="unsafe")
        return out

    return compute


@kernel("LpPool", since=(1, 2, 11, 18, 22), types={"T": FLOATS})
def lp_pool(info: OpKernelInfo) -> Compute:
    attributes, p = WindowAttributes.of(info), info.attribute("p", 2)

    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        windows = attributes.windows(_spatial(x))
        out = context.output(0, (*x.shape[:2], *windows.output), x.dtype)
        itemsize = compute_dtype(x.dtype).itemsize
        context.check_allocation(widened_nbytes(x) + (x.size + out.size) * itemsize)
        powers = _powers(widened(x), p)
        sums = np.empty(out.shape, powers.dtype)
        _pooled(context, np.add, 0, powers, windows, sums)
        np.power(sums, powers.dtype.type(1 / p), out=out, casting="unsafe")
        return out

    return compute


def _powers(x: Tensor, p: int) -> Tensor:
    """|x| to the power ``p``, a new array."""
    sizes = np.abs(x)
    return np.power(sizes, p, out=sizes)


def _rows(x: Tensor) -> Tensor:
    """Return (N, C, everything else), whose last axis a global pool reduces."""
    return widened(x).reshape(*x.shape[:2], element_count(_spatial(x)))


@kernel("GlobalAveragePool", since=(1, 22), types={"T": FLOATS})
def global_average_pool(_info: OpKernelInfo) -> Compute:
    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        out = context.output(0, (*x.shape[:2], *(1,) * (x.ndim - 2)), x.dtype)
        context.check_allocation(widened_nbytes(x, out))
        rows = _rows(x)  # of no elements, whose mean is NaN; numpy's own warns of it
        means = np.add.reduce(rows, axis=2)
        np.divide(means, rows.shape[2], out=means)
        np.copyto(out.reshape(out.shape[:2]), means, casting="unsafe")
        return out

    return compute


@kernel("GlobalMaxPool", since=(1, 22), types={"T": FLOATS})
def global_max_pool(_info: OpKernelInfo) -> Compute:
    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        out = context.output(0, (*x.shape[:2], *(1,) * (x.ndim - 2)), x.dtype)
        context.check_allocation(widened_nbytes(x, out))
        np.copyto(
            out.reshape(out.shape[:2]), _rows(x).max(axis=2, initial=-np.inf), casting="unsafe"
        )
        return out

    return compute


@kernel("GlobalLpPool", since=(1, 2, 22), types={"T": FLOATS})
def global_lp_pool(info: OpKernelInfo) -> Compute:
    p = info.attribute("p", 2)

    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        out = context.output(0, (*x.shape[:2], *(1,) * (x.ndim - 2)), x.dtype)
        itemsize = compute_dtype(x.dtype).itemsize
        context.check_allocation(widened_nbytes(x) + (x.size + 2 * out.size) * itemsize)
        sums = _powers(_rows(x), p).sum(axis=2)
        np.copyto(
            out.reshape(out.shape[:2]), np.power(sums, sums.dtype.type(1 / p)), casting="unsafe"
        )
        return out

    return compute
