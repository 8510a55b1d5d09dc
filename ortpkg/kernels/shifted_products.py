"""Convolution with steps of 1 along the last axis as one product and a few shifted additions.

Unrolling all windows (im2col) copies each input element once per tap of the kernel. Here only the
taps along the leading spatial axes are unrolled, whole rows at a time; one product of *all* taps'
weights with that makes a plane of sums per tap of the last axis, and the output is these planes
added up, each shifted along the rows by its tap. For a 3 x 3 kernel that is a third of the copies,
and fewer elements in all where there are no more filters than channels.

Where rows keep their length, a plane is added as one flat run per filter; what would wrap from one
row into the next is zeroed first.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ortpkg.kernels.axes import element_count
from ortpkg.kernels.blas_threads import matmul
from ortpkg.kernels.conv_epilogue import Epilogue
from ortpkg.kernels.op_kernel import Tensor
from ortpkg.kernels.polling import poll_run
from ortpkg.kernels.scratch import Slot, take_scratch
from ortpkg.kernels.sliding_windows import Windows

#: Bytes of unrolled rows and sums at a time; what was fastest for images of 56² to 256² pixels.
PANEL_NBYTES = 8 << 20


def suits(weight: tuple[int, ...], last_stride: int, group: int) -> bool:
    """Whether this way applies, and moves fewer elements than unrolling all would."""
    filters, channels, *leading, last = weight
    if not leading or last_stride != 1:
        return False
    unrolled, sums = element_count(tuple(leading)) * channels, last * (filters // group)
    return unrolled + sums < last * unrolled


def shifted_filter(weight: Tensor, group: int) -> Tensor:
    """Weights (M, C / group, *leading, last) as (group, last · M / group, leading · C / group)."""
    filters, channels, *kernel = weight.shape
    apart = weight.reshape(group, filters // group, channels, -1, kernel[-1])
    return np.ascontiguousarray(apart.transpose(0, 4, 1, 3, 2)).reshape(
        group, kernel[-1] * (filters // group), -1
    )


def row_nbytes(w: tuple[int, ...], x: tuple[int, ...], windows: Windows, itemsize: int) -> int:
    """At most what one row of outputs takes, where weights ``w`` meet inputs ``x`` this way."""
    unrolled = element_count(w[1:-1])
    return itemsize * (unrolled + w[0] * w[-1]) * element_count(windows.output[1:-1]) * x[-1]


def convolve(
    x: Tensor,
    weight: Tensor,
    windows: Windows,
    epilogue: Epilogue,
    where: tuple[int, int],
    zero_point: float = 0,
) -> None:
    """``epilogue(conv(x - zero_point, g))`` for one image and group.

    Args:
        x: (channels, *spatial) of the group; padding stands for 0.
        weight: (last · filters, leading · channels), the group's :func:`shifted_filter`.
        windows, epilogue: of the node.
        where: image and group.
    """
    image, group = where
    width, last = x.shape[-1], windows.kernel[-1]
    filters, depth = weight.shape[0] // last, weight.shape[1]
    per_row = element_count(windows.output[1:-1])
    row_nbytes = (depth + weight.shape[0]) * per_row * width * weight.itemsize
    count = windows.output[0]
    panels = max(-(-count * row_nbytes // PANEL_NBYTES), 1)
    step = -(-count // panels)
    own = slice(group * filters, (group + 1) * filters)
    positions = per_row * windows.output[-1]
    for start in range(0, count, step):
        poll_run()
        stop = min(start + step, count)
        rows = (stop - start) * per_row
        unrolled, sums = take_scratch(
            Slot.PANEL,
            ((depth, rows * width), weight.dtype),
            ((weight.shape[0], rows * width), weight.dtype),
        )
        shape = (depth // x.shape[0], x.shape[0], stop - start, *windows.output[1:-1], width)
        _unroll(x, windows, start, unrolled.reshape(shape), zero_point)
        matmul(weight, unrolled, out=sums)
        place = slice(start * positions, stop * positions)
        part = epilogue.part(image, own, place)
        _add_shifted(sums.reshape(last, filters, rows, width), windows, epilogue.bias_of(own), part)
        epilogue.finish_biased(part, image, own, place)


def _unroll(x: Tensor, windows: Windows, start: int, unrolled: Tensor, zero_point: float) -> None:
    """Copies rows of ``x`` (channels, *spatial) for each tap of the leading axes.

    To (taps, channels, *outputs of these axes, row).
    """
    leading = range(len(windows.kernel) - 1)
    for number, tap in enumerate(
        itertools.product(*(range(windows.kernel[axis]) for axis in leading))
    ):
        target = unrolled[number]
        inputs: list[slice] = []
        outputs: list[slice] = []
        for axis in leading:
            stride, count = windows.strides[axis], target.shape[1 + axis]
            first = (
                tap[axis] * windows.dilations[axis]
                - windows.before[axis]
                + (start * stride if axis == 0 else 0)
            )
            low = min(max(-(first // stride), 0), count)
            high = max(min((x.shape[1 + axis] - 1 - first) // stride + 1, count), low)
            before: list[Any] = [slice(None)] * (1 + axis)
            if low:
                target[(*before, slice(0, low))] = 0
            if high < count:
                target[(*before, slice(high, count))] = 0
            at = first + low * stride
            inputs.append(slice(at, at + max((high - low - 1) * stride + 1, 0), stride))
            outputs.append(slice(low, high))
        place = target[(slice(None), *outputs)]
        np.copyto(place, x[(slice(None), *inputs)])
        if zero_point:
            np.subtract(place, place.dtype.type(zero_point), out=place)


def _add_shifted(sums: Tensor, windows: Windows, bias: Tensor | None, out: Tensor) -> None:
    """``out`` (filters, positions) = planes of ``sums`` (taps, filters, rows, width) + ``bias``.

    Each plane is shifted by its tap.
    """
    taps, filters, rows, width = sums.shape
    across = windows.output[-1]
    shifts = [tap * windows.dilations[-1] - windows.before[-1] for tap in range(taps)]
    planes = sorted(zip(map(abs, shifts), shifts, sums, strict=True), key=lambda plane: plane[0])
    is_flat = across == width
    target = out if is_flat else out.reshape(filters, rows, across)
    is_begun = False
    for _, shift, plane in planes:
        # the outputs of a row that this tap meets
        low, high = (
            max(-shift, 0),
            min(width - shift, across),
        )
        if low >= high:
            continue
        if not is_begun:
            is_begun = True
            if not is_flat or shift:
                target.fill(0)
            elif bias is None:
                np.copyto(out, plane.reshape(filters, -1))
                continue
            else:
                np.add(plane.reshape(filters, -1), bias[:, None], out=out)
                bias = None
                continue
        if is_flat:
            plane[..., : max(shift, 0)] = 0
            plane[..., width + min(shift, 0) :] = 0
            flat, end = plane.reshape(filters, -1), rows * width
            own = out[:, max(-shift, 0) : end - max(shift, 0)]
            np.add(own, flat[:, max(shift, 0) : end + min(shift, 0)], out=own)
        else:
            own = target[..., low:high]
            np.add(own, plane[..., low + shift : high + shift], out=own)
    if not is_begun:
        out.fill(0)
    if bias is not None:
        np.add(out, bias[:, None], out=out)
