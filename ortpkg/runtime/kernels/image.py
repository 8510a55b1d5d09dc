"""Images and windows: AffineGrid, CenterCropPad, Col2Im, MaxUnpool."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ortpkg.foundations.isolation.polling import poll_run
from ortpkg.runtime.kernels.axes import element_count, grid, int_tuple, normalized_axes, shape_from
from ortpkg.runtime.kernels.blas_threads import matmul
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor


@kernel("AffineGrid", since=(20,))
def affine_grid(info: OpKernelInfo) -> Compute:
    """Positions of output pixels in the input: ``size`` (N, C, [D,] H, W) under ``theta``."""
    align_corners = bool(info.attribute("align_corners", 0))

    def compute(context: OpKernelContext, theta: Tensor, size: Tensor) -> Tensor:
        shape = shape_from(size)
        sizes, rank = shape[2:], len(shape) - 2
        if rank not in (2, 3) or theta.shape != (shape[0], rank, rank + 1):
            raise ValueError(
                f"theta of shape {theta.shape} does not transform images of shape {shape}"
            )
        out = context.output(0, (shape[0], *sizes, rank), theta.dtype)
        # Coordinates on each axis and ones, the same joined, and the transformed ones.
        points_nbytes = element_count(sizes) * np.dtype(np.float64).itemsize
        context.check_allocation((3 * rank + 2) * points_nbytes)
        axes = [_centres(count, align_corners) for count in sizes]
        # Coordinates come as x, y[, z]: the last axis first.
        grid = np.stack([*np.meshgrid(*axes, indexing="ij")[::-1], np.ones(sizes)], axis=-1)
        for index in range(shape[0]):
            turned = matmul(grid, theta[index].astype(np.float64).T)
            np.copyto(out[index], turned, casting="unsafe")
        return out

    return compute


def _centres(count: int, align_corners: bool) -> Tensor:
    """Return the pixels' coordinates in [-1, 1]: their centres, or from corner to corner."""
    if align_corners:
        return np.linspace(-1, 1, count)
    return (2 * np.arange(count) + 1) / max(count, 1) - 1


@kernel("CenterCropPad", since=(18,))
def center_crop_pad(info: OpKernelInfo) -> Compute:
    axes_attribute = info.attribute("axes")

    def compute(context: OpKernelContext, x: Tensor, shape: Tensor) -> Tensor:
        axes = normalized_axes(range(x.ndim) if axes_attribute is None else axes_attribute, x.ndim)
        wanted = shape_from(shape)
        if len(wanted) != len(axes):
            raise ValueError(f"shape {wanted} has not one size for each of the axes {axes}")
        sizes = list(x.shape)
        for axis, size in zip(axes, wanted, strict=True):
            sizes[axis] = size
        out = context.output(0, tuple(sizes), x.dtype)
        out[...] = np.zeros((), x.dtype)
        source = tuple(_middle(old, new) for old, new in zip(x.shape, sizes, strict=True))
        target = tuple(_middle(new, old) for old, new in zip(x.shape, sizes, strict=True))
        out[target] = x[source]
        return out

    return compute


def _middle(size: int, part: int) -> slice:
    """Return the slice of the middle ``part`` of an axis, half a step to the left if not exact."""
    if part >= size:
        return slice(0, size)
    start = (size - part) // 2
    return slice(start, start + part)


def _check_lists(rank: int, **lists: Sequence[int]) -> None:
    """Raise ValueError if a list does not have a number for each axis of an image."""
    for name, numbers in lists.items():
        expected = 2 * rank if name == "pads" else rank
        if len(numbers) != expected:
            raise ValueError(
                f"{name!r} has {len(numbers)} numbers; {expected} numbers were expected for images"
                f" of {rank} axes"
            )


@kernel("Col2Im", since=(18,))
def col2im(info: OpKernelInfo) -> Compute:
    """Images (N, C, *image_shape), summed from blocks (N, C · elements, positions).

    The inverse of im2col.
    """

    def compute(
        context: OpKernelContext, x: Tensor, image_shape: Tensor, block_shape: Tensor
    ) -> Tensor:
        image, block = shape_from(image_shape), shape_from(block_shape)
        rank = len(image)
        strides = tuple(info.attribute("strides") or (1,) * rank)
        dilations = tuple(info.attribute("dilations") or (1,) * rank)
        pads = tuple(info.attribute("pads") or (0,) * (2 * rank))
        _check_lists(rank, block_shape=block, strides=strides, dilations=dilations, pads=pads)
        padded = [size + pads[i] + pads[rank + i] for i, size in enumerate(image)]
        counts = tuple(
            (padded[i] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1 for i in range(rank)
        )
        elements = math.prod(block)
        if (
            x.ndim != 3
            or not elements
            or x.shape[1] % elements
            or x.shape[2] != math.prod(counts)
            or min(counts) < 1
        ):
            raise ValueError(
                f"blocks of shape {x.shape} do not make images of {image} in blocks of {block} at"
                f" {counts} positions"
            )
        channels = x.shape[1] // elements
        out = context.output(0, (x.shape[0], channels, *image), x.dtype)
        context.check_allocation(x.shape[0] * channels * element_count(padded) * x.dtype.itemsize)
        sums = np.zeros((x.shape[0], channels, *padded), x.dtype)
        blocks = x.reshape(x.shape[0], channels, *block, *counts)
        for offset in grid(*map(range, block)):
            poll_run()
            spots = tuple(
                slice(
                    offset[i] * dilations[i],
                    offset[i] * dilations[i] + (counts[i] - 1) * strides[i] + 1,
                    strides[i],
                )
                for i in range(rank)
            )
            source: tuple[Any, ...] = (slice(None), slice(None), *offset)
            sums[(slice(None), slice(None), *spots)] += blocks[source]
        inner = tuple(slice(pads[i], pads[i] + image[i]) for i in range(rank))
        np.copyto(out, sums[(slice(None), slice(None), *inner)])
        return out

    return compute


@kernel("MaxUnpool", since=(9, 11, 22))
def max_unpool(info: OpKernelInfo) -> Compute:
    """Pooled values put back to where MaxPool found them.

    Indices count in the shape that follows from the attributes; a larger ``output_shape`` is filled
    up with zeros.
    """
    kernel_shape = tuple(info.attribute("kernel_shape"))
    rank = len(kernel_shape)
    strides = tuple(info.attribute("strides") or (1,) * rank)
    pads = tuple(info.attribute("pads") or (0,) * (2 * rank))

    def compute(
        context: OpKernelContext, x: Tensor, indices: Tensor, output_shape: Tensor | None = None
    ) -> Tensor:
        if x.ndim != rank + 2 or indices.shape != x.shape:
            raise ValueError(
                f"x of shape {x.shape} and indices of shape {indices.shape} do not fit"
                f" {kernel_shape}"
            )
        sizes = zip(x.shape[2:], strides, pads[:rank], pads[rank:], kernel_shape, strict=True)
        inferred = (
            *x.shape[:2],
            *(
                max((size - 1) * stride - before - after + extent, 0)
                for size, stride, before, after, extent in sizes
            ),
        )
        wanted = inferred if output_shape is None else int_tuple(output_shape)
        if len(wanted) != len(inferred) or any(
            a < b for a, b in zip(wanted, inferred, strict=True)
        ):
            raise ValueError(f"output shape {wanted} is smaller than the unpooled shape {inferred}")
        out = context.output(0, wanted, x.dtype)
        context.check_allocation(element_count(inferred) * x.dtype.itemsize)
        if indices.size and (indices.min() < 0 or indices.max() >= element_count(inferred)):
            raise ValueError(f"an index of MaxUnpool is outside the unpooled shape {inferred}")
        unpooled = np.zeros(element_count(inferred), x.dtype)
        unpooled[indices.ravel()] = x.ravel()
        out[...] = np.zeros((), x.dtype)
        out[tuple(slice(0, size) for size in inferred)] = unpooled.reshape(inferred)
        return out

    return compute
