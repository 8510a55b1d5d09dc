"""Operators that only change a tensor's shape: views of their input, declared as aliases."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ortpkg.graph.types import MOST_DIMENSIONS
from ortpkg.runtime.kernels.axes import element_count, int_tuple, normalized_axes, normalized_axis
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor, Value

_FROM_13 = (13, 21, 23, 24, 25)
_ALIAS = ((0, 0),)
_INT64 = np.dtype(np.int64)


@kernel(
    "Identity", since=(1, 13, 14, 16, 19, 21, 23, 24, 25), alias=_ALIAS, uses_output_buffer=False
)
def identity(_info: OpKernelInfo) -> Compute:
    def compute(_context: OpKernelContext, x: Value) -> Value:
        return x

    return compute


def resolved_shape(
    x_shape: tuple[int, ...], wanted: Sequence[int], allow_zero: bool
) -> tuple[int, ...]:
    """Return Reshape's target: 0 copies a dimension (not with ``allow_zero``), one -1 is inferred.

    The -1 is inferred from the dimensions that are not copied, so an empty batch keeps the shape of
    its rows, where onnxruntime fails. With ``allow_zero``, 0 in the target must match the zeros of
    the input, as in onnxruntime.

    Raises:
        ValueError: ``wanted`` cannot hold the elements of ``x_shape``.
    """
    shape, left = list(wanted), list(x_shape)
    if allow_zero and 0 in wanted:
        left = [dimension for dimension in x_shape if dimension]
    for axis, dimension in enumerate(wanted):
        if dimension == 0 and not allow_zero:
            if axis >= len(x_shape):
                raise ValueError(
                    f"shape {tuple(wanted)} copies axis {axis}, but the input's shape is {x_shape}"
                )
            shape[axis], left[axis] = x_shape[axis], 1
    count = element_count(x_shape)
    if -1 in shape:
        size, rest = divmod(
            element_count(left), element_count([dimension for dimension in wanted if dimension > 0])
        )
        if not rest:
            shape[shape.index(-1)] = size
    if any(dimension < 0 for dimension in shape) or element_count(shape) != count:
        raise ValueError(
            f"a tensor of shape {x_shape} with {count} elements cannot take the shape"
            f" {tuple(wanted)}"
        )
    return tuple(shape)


@kernel("Reshape", since=(5, 13, 14, 19, 21, 23, 24, 25), alias=_ALIAS, uses_output_buffer=False)
def reshape(info: OpKernelInfo) -> Compute:
    allow_zero = bool(info.attribute("allowzero", 0))

    def compute(_context: OpKernelContext, x: Tensor, shape: Tensor) -> Tensor:
        return x.reshape(resolved_shape(x.shape, int_tuple(shape), allow_zero))

    return compute


@kernel("Reshape", since=(1,), alias=_ALIAS, uses_output_buffer=False)
def reshape_by_attribute(info: OpKernelInfo) -> Compute:
    shape = tuple(info.attribute("shape", ()))
    return lambda _context, x: x.reshape(resolved_shape(x.shape, shape, False))


@kernel("Flatten", since=(1, 9, 11, *_FROM_13), alias=_ALIAS, uses_output_buffer=False)
def flatten(info: OpKernelInfo) -> Compute:
    """Two dimensions: those before ``axis``, and the rest; an axis equal to the rank is allowed."""
    axis = info.attribute("axis", 1)

    def compute(_context: OpKernelContext, x: Tensor) -> Tensor:
        split = x.ndim if axis == x.ndim else normalized_axis(axis, x.ndim)
        return x.reshape(element_count(x.shape[:split]), element_count(x.shape[split:]))

    return compute


def _squeezed(x: Tensor, axes: Sequence[int] | None) -> Tensor:
    if axes is None:
        return x.reshape([dimension for dimension in x.shape if dimension != 1])
    dropped = normalized_axes(axes, x.ndim)
    for axis in dropped:
        if x.shape[axis] != 1:
            raise ValueError(
                f"axis {axis} of shape {x.shape} is not of size 1, so it cannot be squeezed"
            )
    return x.reshape([dimension for axis, dimension in enumerate(x.shape) if axis not in dropped])


@kernel("Squeeze", since=(1, 11), alias=_ALIAS, uses_output_buffer=False)
def squeeze_by_attribute(info: OpKernelInfo) -> Compute:
    axes = info.attribute("axes")
    return lambda _context, x: _squeezed(x, axes)


@kernel("Squeeze", since=_FROM_13, alias=_ALIAS, uses_output_buffer=False)
def squeeze(_info: OpKernelInfo) -> Compute:
    return lambda _context, x, axes=None: _squeezed(x, None if axes is None else int_tuple(axes))


def _unsqueezed(x: Tensor, axes: Sequence[int]) -> Tensor:
    rank = x.ndim + len(axes)
    if rank > MOST_DIMENSIONS:
        raise ValueError(f"{rank} dimensions are more than a tensor has, {MOST_DIMENSIONS} at most")
    added = normalized_axes(axes, rank)
    left = iter(x.shape)
    return x.reshape([1 if axis in added else next(left) for axis in range(rank)])


@kernel("Unsqueeze", since=(1, 11), alias=_ALIAS, uses_output_buffer=False)
def unsqueeze_by_attribute(info: OpKernelInfo) -> Compute:
    axes = tuple(info.attribute("axes"))
    return lambda _context, x: _unsqueezed(x, axes)


@kernel("Unsqueeze", since=_FROM_13, alias=_ALIAS, uses_output_buffer=False)
def unsqueeze(_info: OpKernelInfo) -> Compute:
    return lambda _context, x, axes: _unsqueezed(x, int_tuple(axes))


@kernel("Shape", since=(1, 13, 15, 19, 21, 23, 24, 25))
def shape_of(info: OpKernelInfo) -> Compute:
    """Dimensions from ``start`` to ``end`` (as Python slices them), since version 15."""
    start, end = info.attribute("start", 0), info.attribute("end")

    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        shape = x.shape[start:end]
        out = context.output(0, (len(shape),), _INT64)
        out[:] = shape
        return out

    return compute


@kernel("Size", since=(1, 13, 19, 21, 23, 24, 25))
def size_of(_info: OpKernelInfo) -> Compute:
    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        out = context.output(0, (), _INT64)
        out[...] = x.size
        return out

    return compute
