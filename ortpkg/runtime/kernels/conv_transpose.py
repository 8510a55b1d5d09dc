"""ConvTranspose: a product per image and group, added into the output window by window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ortpkg.foundations.isolation.polling import poll_run
from ortpkg.runtime.kernels.axes import element_count, grid
from ortpkg.runtime.kernels.element_types import FLOATS, compute_dtype, widened, widened_nbytes
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.matrix_product import product_in_blocks
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor
from ortpkg.runtime.kernels.sliding_windows import WindowAttributes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placement:
    """Sizes and offsets of the windows' sums; ``full`` is their size before both ends are cut."""

    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    full: tuple[int, ...]
    before: tuple[int, ...]
    output: tuple[int, ...]


def _placement(
    attributes: WindowAttributes,
    spatial: tuple[int, ...],
    kernel_shape: tuple[int, ...],
    output_padding: tuple[int, ...],
    output_shape: tuple[int, ...],
) -> _Placement:
    """Return the sizes of all axes, by ONNX's formula.

    output = stride · (input - 1) + padding + reach - pads. With ``output_shape`` (or auto_pad
    SAME_*, which means input · stride, or the full size if that is less) the pads follow from it;
    the odd one goes to the end for SAME_UPPER, else to the beginning.
    """
    rank = len(spatial)
    sizes, strides, dilations = attributes.lists(rank, kernel_shape)
    extra = output_padding or (0,) * rank
    if len(extra) != rank or (output_shape and len(output_shape) not in (rank, rank + 2)):
        raise ValueError(
            f"output_padding {extra} or output_shape {output_shape} does not fit {rank} spatial"
            " axes"
        )
    same = attributes.auto_pad.startswith("SAME")
    full, before, output = [], [], []
    for axis, size in enumerate(spatial):
        natural = strides[axis] * (size - 1) + (sizes[axis] - 1) * dilations[axis] + 1 + extra[axis]
        if output_shape or same:
            wanted = (
                output_shape[-rank:][axis] if output_shape else min(size * strides[axis], natural)
            )
            total = max(natural - wanted, 0)
            first = total // 2 if attributes.auto_pad == "SAME_UPPER" else total - total // 2
        else:
            pads = (
                attributes.pads
                if attributes.auto_pad == "NOTSET" and attributes.pads
                else (0,) * 2 * rank
            )
            first, wanted = pads[axis], natural - pads[axis] - pads[rank + axis]
        if wanted < 1 or first < 0:
            raise ValueError(
                f"padding leaves {wanted} of {natural} elements on spatial axis {axis}"
            )
        full.append(max(natural, first + wanted))
        before.append(first)
        output.append(wanted)
    return _Placement(
        strides=strides,
        dilations=dilations,
        full=tuple(full),
        before=tuple(before),
        output=tuple(output),
    )


def _add_windows(
    columns: Tensor, placement: _Placement, kernel_shape: tuple[int, ...], full: Tensor
) -> None:
    """Add ``columns`` (channels, *kernel, *input) to ``full`` (channels, *full), by windows."""
    spatial = columns.shape[1 + len(kernel_shape) :]
    if not columns.size:
        return
    for tap in grid(*map(range, kernel_shape)):
        poll_run()
        tap_slices: list[Any] = [
            slice(position * dilation, position * dilation + (size - 1) * stride + 1, stride)
            for position, dilation, size, stride in zip(
                tap, placement.dilations, spatial, placement.strides, strict=True
            )
        ]
        target: tuple[Any, ...] = (slice(None), *tap_slices)
        source: tuple[Any, ...] = (slice(None), *tap)
        full[target] += columns[source]


@kernel("ConvTranspose", since=(1, 11, 22), types={"T": FLOATS})
def conv_transpose(info: OpKernelInfo) -> Compute:
    attributes, group = WindowAttributes.of(info), info.attribute("group", 1)
    output_padding = tuple(info.attribute("output_padding", ()))
    output_shape = tuple(info.attribute("output_shape", ()))

    def compute(
        context: OpKernelContext, x: Tensor, weight: Tensor, bias: Tensor | None = None
    ) -> Tensor:
        _check_shapes(x.shape, weight.shape, group, bias)
        spatial, kernel_shape = x.shape[2:], weight.shape[2:]
        placement = _placement(attributes, spatial, kernel_shape, output_padding, output_shape)
        per_group = weight.shape[1]
        out = context.output(0, (x.shape[0], per_group * group, *placement.output), x.dtype)
        if not out.size:
            return out
        dtype = compute_dtype(x.dtype)
        columns_count = element_count(kernel_shape) * element_count(spatial)
        context.check_allocation(
            widened_nbytes(x, weight)
            + dtype.itemsize * per_group * (columns_count + element_count(placement.full))
        )
        wide, wide_weight = widened(x), widened(weight)
        channels = x.shape[1] // group
        cut: list[Any] = [
            slice(start, start + size)
            for start, size in zip(placement.before, placement.output, strict=True)
        ]
        for n, g in grid(range(x.shape[0]), range(group)):
            group_channels = slice(g * channels, (g + 1) * channels)
            matrix = wide_weight[group_channels].reshape(
                channels, per_group * element_count(kernel_shape)
            )
            columns = np.empty((matrix.shape[1], element_count(spatial)), dtype)
            product_in_blocks(
                matrix.T, wide[n, group_channels].reshape(channels, element_count(spatial)), columns
            )
            full = np.zeros((per_group, *placement.full), dtype)
            _add_windows(
                columns.reshape(per_group, *kernel_shape, *spatial), placement, kernel_shape, full
            )
            result = full[(slice(None), *cut)]
            if bias is not None:
                group_bias = widened(bias)[g * per_group : (g + 1) * per_group]
                result += group_bias.reshape((-1,) + (1,) * len(spatial))
            np.copyto(out[n, g * per_group : (g + 1) * per_group], result, casting="unsafe")
            del columns, full, result  # before the next ones are made
        return out

    return compute


def _check_shapes(x: tuple[int, ...], w: tuple[int, ...], group: int, bias: Tensor | None) -> None:
    if len(x) < 3 or len(w) != len(x):
        raise ValueError(
            f"an input of shape {x} and a weight of shape {w} are not (N, C, D1, ...) and (C,"
            " M/group, k1, ...)"
        )
    if group < 1 or x[1] != w[0] or x[1] % group:
        raise ValueError(
            f"an input of {x[1]} channels does not fit a weight of shape {w} in {group} groups"
        )
    if bias is not None and bias.shape != (w[1] * group,):
        raise ValueError(
            f"a bias of shape {bias.shape} does not fit {w[1] * group} output channels"
        )
