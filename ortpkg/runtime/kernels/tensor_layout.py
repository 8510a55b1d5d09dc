"""Operators that move whole tensors: Transpose, Concat, Split, Expand, Tile, Pad, space ↔ depth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ortpkg.foundations.errors import quoted
from ortpkg.runtime.kernels.axes import (
    broadcast_shape,
    int_tuple,
    normalized_axes,
    normalized_axis,
    shape_from,
)
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor

#: Version of Split before which parts without lengths are equal.
_UNEVEN_PARTS_SINCE = 18
#: Bytes of the source index of an element of a padded axis, with intermediates.
_INDEX_NBYTES = 24


def _copied(context: OpKernelContext, x: Tensor, index: int = 0) -> Tensor:
    out = context.output(index, x.shape, x.dtype)
    np.copyto(out, x)
    return out


@kernel("Transpose", since=(1, 13, 21, 23, 24, 25))
def transpose(info: OpKernelInfo) -> Compute:
    perm = info.attribute("perm")

    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        if perm is not None and sorted(perm) != list(range(x.ndim)):
            raise ValueError(f"perm {tuple(perm)} is no permutation of the axes of shape {x.shape}")
        return _copied(context, x.transpose(perm))

    return compute


@kernel("Concat", since=(1, 4, 11, 13))
def concat(info: OpKernelInfo) -> Compute:
    axis = info.attribute("axis", 1)

    def compute(context: OpKernelContext, *inputs: Tensor) -> Tensor:
        first = inputs[0]
        along = normalized_axis(axis, first.ndim)
        rest = (*first.shape[:along], *first.shape[along + 1 :])
        for x in inputs:
            if x.ndim != first.ndim or (*x.shape[:along], *x.shape[along + 1 :]) != rest:
                raise ValueError(
                    f"shapes {first.shape} and {x.shape} differ in more than the axis {along}"
                )
        length = sum(x.shape[along] for x in inputs)
        out = context.output(
            0, (*first.shape[:along], length, *first.shape[along + 1 :]), first.dtype
        )
        np.concatenate(inputs, axis=along, out=out)
        return out

    return compute


def _split(context: OpKernelContext, x: Tensor, axis: int, lengths: Sequence[int]) -> Any:
    along = normalized_axis(axis, x.ndim)
    if any(length < 0 for length in lengths) or sum(lengths) != x.shape[along]:
        raise ValueError(
            f"axis {along} of shape {x.shape} cannot be split into lengths {tuple(lengths)}"
        )
    outputs, start = [], 0
    for index, length in enumerate(lengths):
        part = x[(slice(None),) * along + (slice(start, start + length),)]
        outputs.append(_copied(context, part, index))
        start += length
    return tuple(outputs) if len(outputs) > 1 else outputs[0]


def _even_lengths(size: int, parts: int, *, exactly: bool) -> list[int]:
    """Return ``parts`` equal lengths; the last is shorter if they do not come out even (Split-18).

    ``exactly``: unequal parts are an error, as before version 18.
    """
    if exactly and size % parts:
        raise ValueError(f"{size} elements cannot be split into {parts} equal parts")
    length = -(-size // parts)
    return [max(min(length, size - start * length), 0) for start in range(parts)]


@kernel("Split", since=(1, 2, 11, 13, 18))
def split(info: OpKernelInfo) -> Compute:
    """Parts with lengths from the second input, else the attribute ``split``, else all equal."""
    axis = info.attribute("axis", 0)
    by_attribute = info.attribute("split")
    parts = info.attribute("num_outputs", len(info.node.outputs))
    exactly = info.node.since_version < _UNEVEN_PARTS_SINCE

    def compute(context: OpKernelContext, x: Tensor, lengths: Tensor | None = None) -> Any:
        if lengths is not None:
            _check_count(lengths.size, len(info.node.outputs))
            wanted: Sequence[int] = int_tuple(lengths, most=lengths.size)
        elif by_attribute is not None:
            wanted = by_attribute
        else:
            wanted = _even_lengths(x.shape[normalized_axis(axis, x.ndim)], parts, exactly=exactly)
        _check_count(len(wanted), len(info.node.outputs))
        return _split(context, x, axis, wanted)

    return compute


def _check_count(lengths: int, outputs: int) -> None:
    if lengths != outputs:
        raise ValueError(f"{lengths} lengths are given for {outputs} outputs")


@kernel("Expand", since=(8, 13))
def expand(_info: OpKernelInfo) -> Compute:
    def compute(context: OpKernelContext, x: Tensor, shape: Tensor) -> Tensor:
        out = context.output(0, broadcast_shape(x.shape, shape_from(shape)), x.dtype)
        np.copyto(out, x)
        return out

    return compute


def _tiled(context: OpKernelContext, x: Tensor, repeats: Sequence[int]) -> Tensor:
    if len(repeats) != x.ndim or any(repeat < 0 for repeat in repeats):
        raise ValueError(f"repeats {tuple(repeats)} do not fit a tensor of shape {x.shape}")
    out = context.output(
        0, tuple(d * repeat for d, repeat in zip(x.shape, repeats, strict=True)), x.dtype
    )
    # As (repeat, dimension) pairs, tiling is broadcasting.
    pairs = [size for pair in zip(repeats, x.shape, strict=True) for size in pair]
    np.copyto(out.reshape(pairs), x.reshape([size for d in x.shape for size in (1, d)]))
    return out


@kernel("Tile", since=(6, 13))
def tile(_info: OpKernelInfo) -> Compute:
    return lambda context, x, repeats: _tiled(context, x, int_tuple(repeats))


@kernel("Tile", since=(1,))
def tile_one_axis(_info: OpKernelInfo) -> Compute:
    def compute(context: OpKernelContext, x: Tensor, tiles: Tensor, axis: Tensor) -> Tensor:
        repeats = [1] * x.ndim
        repeats[normalized_axis(int(axis.item()), x.ndim)] = int(tiles.item())
        return _tiled(context, x, repeats)

    return compute


# --- Pad ------------------------------------------------------------------------------------------


def _source_indices(size: int, before: int, after: int, mode: str) -> Tensor:
    """Return the source position of each position of a padded axis.

    Raises:
        ValueError: the axis is empty.
    """
    positions = np.arange(-before, size + after)
    if size == 0 and positions.size:
        raise ValueError(f"an axis of size 0 has no values to pad with in mode {mode!r}")
    if mode == "edge":
        return np.clip(positions, 0, max(size - 1, 0))
    if mode == "wrap":
        return positions % size if size else positions
    if size <= 1:
        return np.zeros_like(positions)
    period = 2 * (size - 1)
    positions = positions % period
    return np.minimum(positions, period - positions)


def _padded(
    context: OpKernelContext, x: Tensor, pads: Sequence[tuple[int, int]], mode: str, value: Any
) -> Tensor:
    shape = tuple(
        size + before + after for size, (before, after) in zip(x.shape, pads, strict=True)
    )
    if any(dimension < 0 for dimension in shape):
        raise ValueError(f"pads {list(pads)} cut more from shape {x.shape} than is there")
    out = context.output(0, shape, x.dtype)
    if mode == "constant":
        out[...] = value
        inner = [max(before, 0) for before, _ in pads]
        source = tuple(
            slice(max(-before, 0), size - max(-after, 0))
            for size, (before, after) in zip(x.shape, pads, strict=True)
        )
        cropped = x[source]
        out[
            tuple(
                slice(start, start + size) for start, size in zip(inner, cropped.shape, strict=True)
            )
        ] = cropped
        return out
    for axis, (before, after) in enumerate(pads):
        if before or after:
            size = x.shape[axis] + before + after
            context.check_allocation(
                x.nbytes // max(x.shape[axis], 1) * size + _INDEX_NBYTES * size
            )
            x = np.take(x, _source_indices(x.shape[axis], before, after, mode), axis=axis)
    np.copyto(out, x)
    return out


def _pad_pairs(pads: Sequence[int], axes: Sequence[int] | None, rank: int) -> list[tuple[int, int]]:
    """Return (before, after) per axis from ONNX's flat list: all befores, then all afters."""
    padded_axes = range(rank) if axes is None else normalized_axes(axes, rank)
    if len(pads) != 2 * len(padded_axes):
        raise ValueError(
            f"{len(pads)} pads are given for {len(padded_axes)} axes: two per axis are needed"
        )
    pairs = [(0, 0)] * rank
    for slot, axis in enumerate(padded_axes):
        pairs[axis] = (pads[slot], pads[slot + len(padded_axes)])
    return pairs


def _pad_mode(info: OpKernelInfo) -> str:
    mode = str(info.attribute("mode", "constant"))
    if mode not in ("constant", "reflect", "edge", "wrap"):
        raise ValueError(f"Pad has no mode {quoted(mode)}: constant, reflect, edge and wrap exist")
    return mode


@kernel("Pad", since=(11, 13, 18, 19, 21, 23, 24, 25))
def pad(info: OpKernelInfo) -> Compute:
    mode = _pad_mode(info)

    def compute(
        context: OpKernelContext,
        x: Tensor,
        pads: Tensor,
        value: Tensor | None = None,
        axes: Tensor | None = None,
    ) -> Tensor:
        pairs = _pad_pairs(int_tuple(pads), None if axes is None else int_tuple(axes), x.ndim)
        fill = (
            ("" if x.dtype == object else x.dtype.type(0))
            if value is None
            else value.reshape(())[()]
        )
        return _padded(context, x, pairs, mode, fill)

    return compute


@kernel("Pad", since=(1, 2))
def pad_by_attribute(info: OpKernelInfo) -> Compute:
    mode, value = _pad_mode(info), info.attribute("value", 0.0)
    pads = info.attribute("paddings" if info.node.since_version == 1 else "pads")
    return lambda context, x: _padded(context, x, _pad_pairs(pads, None, x.ndim), mode, value)


# --- space ↔ depth --------------------------------------------------------------------------------


@kernel("DepthToSpace", since=(1, 11, 13, 28))
def depth_to_space(info: OpKernelInfo) -> Compute:
    block, column_row_depth = info.attribute("blocksize"), info.attribute("mode", "DCR") == "CRD"

    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        if x.ndim != 4 or x.shape[1] % (block * block):
            raise ValueError(
                f"shape {x.shape} is not (N, C, H, W) with C a multiple of {block * block}"
            )
        n, c, h, w = x.shape
        depth = c // (block * block)
        if column_row_depth:
            pieces = x.reshape(n, depth, block, block, h, w).transpose(0, 1, 4, 2, 5, 3)
        else:
            pieces = x.reshape(n, block, block, depth, h, w).transpose(0, 3, 4, 1, 5, 2)
        out = context.output(0, (n, depth, h * block, w * block), x.dtype)
        np.copyto(out.reshape(pieces.shape), pieces)
        return out

    return compute


@kernel("SpaceToDepth", since=(1, 13, 28))
def space_to_depth(info: OpKernelInfo) -> Compute:
    block, column_row_depth = info.attribute("blocksize"), info.attribute("mode", "DCR") == "CRD"

    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        if x.ndim != 4 or x.shape[2] % block or x.shape[3] % block:
            raise ValueError(
                f"shape {x.shape} is not (N, C, H, W) with H and W multiples of {block}"
            )
        n, c, h, w = x.shape
        order = (0, 1, 3, 5, 2, 4) if column_row_depth else (0, 3, 5, 1, 2, 4)
        pieces = x.reshape(n, c, h // block, block, w // block, block).transpose(order)
        out = context.output(0, (n, c * block * block, h // block, w // block), x.dtype)
        np.copyto(out.reshape(pieces.shape), pieces)
        return out

    return compute
