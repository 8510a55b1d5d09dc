"""Operators that pick elements: Slice, Gather*, Compress, NonZero, Trilu, ReverseSequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ortpkg.runtime.kernels.axes import (
    element_count,
    int_tuple,
    normalized_axes,
    normalized_axis,
    only_number,
    wrapped_indices,
)
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor

_INT64 = np.dtype(np.int64)


def _sliced(
    context: OpKernelContext,
    x: Tensor,
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int] | None,
    steps: Sequence[int] | None,
) -> Tensor:
    axes = tuple(range(len(starts))) if axes is None else axes
    steps = (1,) * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise ValueError(
            f"starts, ends, axes and steps have {len(starts)}, {len(ends)}, {len(axes)},"
            f" {len(steps)} items"
        )
    index = [slice(None)] * x.ndim
    for start, end, axis, step in zip(
        starts, ends, normalized_axes(axes, x.ndim), steps, strict=True
    ):
        if step == 0:
            raise ValueError(f"the step of axis {axis} is 0")
        # A start before the axis means its first element, backwards too, where numpy takes nothing.
        first, stop, _ = slice(max(start, -x.shape[axis]), end, step).indices(x.shape[axis])
        index[axis] = slice(first, stop if stop >= 0 else None, step)
    part = x[tuple(index)]
    out = context.output(0, part.shape, x.dtype)
    np.copyto(out, part)
    return out


@kernel("Slice", since=(10, 11, 13))
def slice_(_info: OpKernelInfo) -> Compute:
    def compute(
        context: OpKernelContext,
        x: Tensor,
        starts: Tensor,
        ends: Tensor,
        axes: Tensor | None = None,
        steps: Tensor | None = None,
    ) -> Tensor:
        return _sliced(
            context,
            x,
            int_tuple(starts),
            int_tuple(ends),
            None if axes is None else int_tuple(axes),
            None if steps is None else int_tuple(steps),
        )

    return compute


@kernel("Slice", since=(1,))
def slice_by_attribute(info: OpKernelInfo) -> Compute:
    starts, ends, axes = info.attribute("starts"), info.attribute("ends"), info.attribute("axes")
    return lambda context, x: _sliced(context, x, starts, ends, axes, None)


@kernel("Gather", since=(1, 11, 13))
def gather(info: OpKernelInfo) -> Compute:
    axis = info.attribute("axis", 0)

    def compute(context: OpKernelContext, x: Tensor, indices: Tensor) -> Tensor:
        along = normalized_axis(axis, x.ndim)
        out = context.output(0, (*x.shape[:along], *indices.shape, *x.shape[along + 1 :]), x.dtype)
        positions = wrapped_indices(indices, x.shape[along], context.check_allocation)
        if out.size:
            # The positions are checked; mode "clip" lets numpy write to out without a buffer of its
            # own.
            np.take(x, positions, axis=along, out=out, mode="clip")
        return out

    return compute


@kernel("GatherElements", since=(11, 13))
def gather_elements(info: OpKernelInfo) -> Compute:
    axis = info.attribute("axis", 0)

    def compute(context: OpKernelContext, x: Tensor, indices: Tensor) -> Tensor:
        along = normalized_axis(axis, x.ndim)
        check_element_indices(x.shape, indices.shape, along)
        out = context.output(0, indices.shape, x.dtype)
        # Besides the positions, the elements that numpy picks, which are copied.
        context.check_allocation(element_index_nbytes(indices.shape) + out.nbytes)
        positions = wrapped_indices(indices, x.shape[along], context.check_allocation)
        if out.size:
            np.copyto(out, x[element_index(positions, along)])
        return out

    return compute


def check_element_indices(
    shape: tuple[int, ...], indices_shape: tuple[int, ...], axis: int
) -> None:
    """Raise ValueError if indices along ``axis`` do not fit the other axes of ``shape``."""
    fits = len(shape) == len(indices_shape) and all(
        size <= limit or at == axis
        for at, (size, limit) in enumerate(zip(indices_shape, shape, strict=True))
    )
    if not fits:
        raise ValueError(
            f"indices of shape {indices_shape} do not fit a tensor of shape {shape} along axis"
            f" {axis}"
        )


def element_index_nbytes(shape: tuple[int, ...]) -> int:
    """Return the bytes of positions of ``shape``, and of :func:`element_index` for them."""
    count = element_count(shape)
    return (count + sum(shape)) * _INT64.itemsize if count else 0


def element_index(positions: Tensor, axis: int) -> tuple[Tensor, ...]:
    """Return an index of ``positions`` along ``axis``, and each element's own one elsewhere."""
    index: list[Tensor] = []
    for number, size in enumerate(positions.shape):
        axis_shape = [1] * positions.ndim
        axis_shape[number] = size
        index.append(positions if number == axis else np.arange(size).reshape(axis_shape))
    return tuple(index)


def nd_index(
    indices: Tensor, shape: tuple[int, ...], ask: Callable[[int], None], batch_dims: int = 0
) -> tuple[Tensor, ...]:
    """Return the index arrays that ``indices`` (..., depth) mean after ``batch_dims`` batch axes.

    ``ask`` is the context's ``check_allocation``, called with the size of all of them first.

    Raises:
        ValueError: indices are out of range, or deeper than the tensor.
    """
    if indices.ndim <= batch_dims:
        raise ValueError(f"indices of shape {indices.shape} need more than {batch_dims} axes")
    depth = indices.shape[-1]
    if batch_dims + depth > len(shape):
        raise ValueError(
            f"indices of shape {indices.shape} are deeper than the data, of shape {shape}"
        )
    if indices.shape[:batch_dims] != shape[:batch_dims]:
        raise ValueError(
            f"indices of shape {indices.shape} and data of shape {shape} differ in their batch axes"
        )
    is_known = indices.dtype == _INT64 and (not indices.size or indices.min() >= 0)
    ask(0 if is_known else indices.size * (_INT64.itemsize + 1))
    no_rows = 0 in indices.shape[:-1]  # then nobody looks at the index
    index: list[Tensor] = []
    for axis in range(batch_dims):
        axis_shape = [1] * (indices.ndim - 1)
        axis_shape[axis] = shape[axis]
        index.append(
            np.broadcast_to(0, axis_shape)
            if no_rows
            else np.arange(shape[axis]).reshape(axis_shape)
        )
    index.extend(
        wrapped_indices(indices[..., column], shape[batch_dims + column], ask)
        for column in range(depth)
    )
    return tuple(index)


@kernel("GatherND", since=(11, 12, 13))
def gather_nd(info: OpKernelInfo) -> Compute:
    batch_dims = info.attribute("batch_dims", 0)

    def compute(context: OpKernelContext, x: Tensor, indices: Tensor) -> Tensor:
        index = nd_index(indices, x.shape, context.check_allocation, batch_dims)
        out = context.output(
            0, (*indices.shape[:-1], *x.shape[batch_dims + indices.shape[-1] :]), x.dtype
        )
        context.check_allocation(out.nbytes + indices.size * _INT64.itemsize)
        if out.size:
            np.copyto(out, x[index])
        return out

    return compute


@kernel("Compress", since=(9, 11, 28))
def compress(info: OpKernelInfo) -> Compute:
    axis = info.attribute("axis")

    def compute(context: OpKernelContext, x: Tensor, condition: Tensor) -> Tensor:
        along = 0 if axis is None else normalized_axis(axis, x.ndim)
        source = x.reshape(-1) if axis is None else x
        if condition.size > source.shape[along]:
            raise ValueError(
                f"a condition of length {condition.size} is longer than an axis of"
                f" {source.shape[along]}"
            )
        count = int(np.count_nonzero(condition))
        out = context.output(0, (*source.shape[:along], count, *source.shape[along + 1 :]), x.dtype)
        context.check_allocation(count * _INT64.itemsize)
        positions = np.flatnonzero(condition)
        if out.size:
            np.take(source, positions, axis=along, out=out, mode="clip")
        return out

    return compute


@kernel("NonZero", since=(9, 13))
def non_zero(_info: OpKernelInfo) -> Compute:
    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        if x.ndim == 0:
            return context.output(0, (0, int(x != 0)), _INT64)
        out = context.output(0, (x.ndim, int(np.count_nonzero(x))), _INT64)
        context.check_allocation(out.nbytes)  # the elements that numpy picks, which are copied
        for row, positions in zip(out, np.nonzero(x), strict=True):
            row[:] = positions
        return out

    return compute


@kernel("Trilu", since=(14,), in_place=((0, 0),))
def triangle(info: OpKernelInfo) -> Compute:
    upper = bool(info.attribute("upper", 1))

    def compute(context: OpKernelContext, x: Tensor, k: Tensor | None = None) -> Tensor:
        if x.ndim < 2:
            raise ValueError(f"a triangle needs a matrix, but the shape is {x.shape}")
        out = context.output(0, x.shape, x.dtype)
        if not x.size:
            return out
        rows, columns = x.shape[-2:]
        context.check_allocation(rows * columns)
        # Clamped, so that no value of k overflows: beyond these bounds nothing changes any more.
        requested = 0 if k is None else int(only_number(k, "k").item())
        diagonal = max(-rows - 1, min(requested, columns + 1))
        np.copyto(out, x)
        column, row = np.arange(columns), np.arange(rows)[:, None]
        dropped = column < row + diagonal if upper else column > row + diagonal
        np.copyto(out, x.dtype.type(0), where=dropped)
        return out

    return compute


@kernel("ReverseSequence", since=(10, 28))
def reverse_sequence(info: OpKernelInfo) -> Compute:
    batch_axis, time_axis = info.attribute("batch_axis", 1), info.attribute("time_axis", 0)

    def compute(context: OpKernelContext, x: Tensor, lengths: Tensor) -> Tensor:
        if x.ndim < 2 or {batch_axis, time_axis} != {0, 1}:
            raise ValueError(
                f"batch and time are the axes 0 and 1, not {batch_axis} and {time_axis} of"
                f" {x.shape}"
            )
        times = x.shape[time_axis]
        if lengths.shape != (x.shape[batch_axis],) or (
            lengths.size and not 0 <= lengths.min() <= lengths.max() <= times
        ):
            raise ValueError(
                f"{lengths.shape} lengths do not fit an input of shape {x.shape} with {times} steps"
            )
        out = context.output(0, x.shape, x.dtype)
        if not x.size:
            return out
        # The source of each step, two arrays it is computed from, and the result.
        context.check_allocation(times * len(lengths) * (2 * _INT64.itemsize + 1) + out.nbytes)
        time = np.arange(times)[None, :]
        source = np.where(time < lengths[:, None], lengths[:, None] - 1 - time, time)
        batch = np.arange(x.shape[batch_axis])[:, None]
        np.copyto(out, x[batch, source] if batch_axis == 0 else x[source.T, batch.T])
        return out

    return compute
