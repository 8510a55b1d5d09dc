"""Pooling: MaxPool, AveragePool, LpPool and their global forms.

Maxima and sums over a box are taken one axis after the other: a window of k x k costs 2k passes instead of k².
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from ortpkg.graph.types import ElementType
from ortpkg.kernels.axes import element_count
from ortpkg.kernels.element_types import FLOATS, widened
from ortpkg.kernels.kernel_registry import kernel
from ortpkg.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor
from ortpkg.kernels.windows import WindowAttributes, Windows

_INT64 = np.dtype(np.int64)


def _spatial(x: Tensor) -> tuple[int, ...]:
    if x.ndim < 3:
        raise ValueError(f"pooling needs an input (N, C, D1, ...), but the shape is {x.shape}")
    return x.shape[2:]


def _taps(windows: Windows, axis: int, size: int) -> Iterator[tuple[slice, slice]]:
    """For each position in the window along a spatial axis: (outputs, inputs) that it joins, padding left out."""
    stride, first = windows.strides[axis], windows.before[axis]
    for tap in range(windows.kernel[axis]):
        shift = tap * windows.dilations[axis] - first
        start = max(-(shift // stride), 0)  # the first window whose element lies at 0 or beyond
        stop = min((size - 1 - shift) // stride + 1, windows.output[axis])
        if stop > start:
            at = start * stride + shift
            yield slice(start, stop), slice(at, at + (stop - start - 1) * stride + 1, stride)


def _pooled(context: OpKernelContext, ufunc: Any, neutral: Any, x: Tensor, windows: Windows, out: Tensor) -> None:
    """Folds ``ufunc`` over the windows of ``x`` into ``out``, one spatial axis at a time, the last axis first."""
    for axis in reversed(range(len(windows.kernel))):
        at = axis + 2
        shape = (*x.shape[:at], windows.output[axis], *x.shape[at + 1 :])
        if axis > 0:
            context.check_allocation(element_count(shape) * x.itemsize)
        target = out if axis == 0 else np.empty(shape, x.dtype)
        target[...] = neutral
        before = (slice(None),) * at
        for outputs, inputs in _taps(windows, axis, x.shape[at]):
            context.check_cancelled()
            part = target[(*before, outputs)]
            ufunc(part, x[(*before, inputs)], out=part)
        x = target


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
            _max_pool_with_indices(widened(x), windows, out, indices, column_major)
            return out, indices
        wide = widened(x)
        if wide is x:
            _pooled(context, np.maximum, _lowest(x.dtype), x, windows, out)
        else:
            result = np.empty(shape, wide.dtype)
            _pooled(context, np.maximum, -np.inf, wide, windows, result)
            np.copyto(out, result, casting="unsafe")
        return out

    return compute


def _max_pool_with_indices(x: Tensor, windows: Windows, out: Tensor, indices: Tensor, column_major: bool) -> None:
    """The first of equal maxima counts; indices run over the whole input, each plane in the asked-for order."""
    spatial = x.shape[2:]
    plane = element_count(spatial)
    positions = np.arange(plane).reshape(spatial, order="F" if column_major else "C")
    numbers = positions + plane * np.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *(1,) * len(spatial))
    best = np.full(out.shape, _lowest(x.dtype), x.dtype)
    indices[...] = 0
    unseen = np.ones(out.shape, np.bool_)
    for taps in itertools.product(*(list(_taps(windows, axis, size)) for axis, size in enumerate(spatial))):
        target: tuple[Any, ...] = (..., *(outputs for outputs, _ in taps))
        source: tuple[Any, ...] = (..., *(inputs for _, inputs in taps))
        better = (x[source] > best[target]) | unseen[target]
        np.copyto(best[target], x[source], where=better)
        np.copyto(indices[target], numbers[source], where=better)
        unseen[target] = False
    np.copyto(out, best, casting="unsafe")


def _counts(windows: Windows, spatial: tuple[int, ...], include_pad: bool) -> Tensor:
    """How many elements each window averages: those of the input, with ``include_pad`` those of the padding too."""
    total = np.ones((), np.float32)
    for axis, size in enumerate(spatial):
        first, last = (windows.before[axis], windows.after[axis]) if include_pad else (0, 0)
        starts = np.arange(windows.output[axis]) * windows.strides[axis] - windows.before[axis]
        below = np.clip(-((starts + first) // windows.dilations[axis]), 0, windows.kernel[axis])
        until = np.clip(-((starts - size - last) // windows.dilations[axis]), 0, windows.kernel[axis])
        total = total[..., None] * (until - below).astype(np.float32)
    return total


@kernel("AveragePool", since=(1, 7, 10, 11, 19, 22), types={"T": FLOATS})
def average_pool(info: OpKernelInfo) -> Compute:
    attributes = WindowAttributes.of(info)
    include_pad = bool(info.attribute("count_include_pad", 0))

    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        windows = attributes.windows(_spatial(x))
        out = context.output(0, (*x.shape[:2], *windows.output), x.dtype)
        wide = widened(x)
        sums = out if wide is x else np.empty(out.shape, wide.dtype)
        _pooled(context, np.add, 0, wide, windows, sums)
        np.divide(sums, _counts(windows, x.shape[2:], include_pad).astype(sums.dtype), out=sums)
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
        powers = np.power(np.abs(widened(x)), p)
        sums = np.empty(out.shape, powers.dtype)
        _pooled(context, np.add, 0, powers, windows, sums)
        np.copyto(out, np.power(sums, powers.dtype.type(1 / p)), casting="unsafe")
        return out

    return compute


def _rows(x: Tensor) -> Tensor:
    """(N, C, everything else): what a global pool reduces over its last axis."""
    return widened(x).reshape(*x.shape[:2], element_count(_spatial(x)))


@kernel("GlobalAveragePool", since=(1, 22), types={"T": FLOATS})
def global_average_pool(_info: OpKernelInfo) -> Compute:
    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        out = context.output(0, (*x.shape[:2], *(1,) * (x.ndim - 2)), x.dtype)
        np.copyto(out.reshape(out.shape[:2]), _rows(x).mean(axis=2), casting="unsafe")
        return out

    return compute


@kernel("GlobalMaxPool", since=(1, 22), types={"T": FLOATS})
def global_max_pool(_info: OpKernelInfo) -> Compute:
    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        out = context.output(0, (*x.shape[:2], *(1,) * (x.ndim - 2)), x.dtype)
        np.copyto(out.reshape(out.shape[:2]), _rows(x).max(axis=2, initial=-np.inf), casting="unsafe")
        return out

    return compute


@kernel("GlobalLpPool", since=(1, 2, 22), types={"T": FLOATS})
def global_lp_pool(info: OpKernelInfo) -> Compute:
    p = info.attribute("p", 2)

    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        out = context.output(0, (*x.shape[:2], *(1,) * (x.ndim - 2)), x.dtype)
        sums = np.power(np.abs(_rows(x)), p).sum(axis=2)
        np.copyto(out.reshape(out.shape[:2]), np.power(sums, sums.dtype.type(1 / p)), casting="unsafe")
        return out

    return compute
