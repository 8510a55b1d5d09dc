"""Depthwise convolution, in one or two spatial axes, as sums of shifted planes.

The padded input of a block of channels is split by stride phase into planes that lie flat in
memory. A tap of the kernel then is one contiguous run per channel, shifted by a constant, so that
numpy works on long runs whatever the row length: the sums have the planes' row length, and the
surplus columns are dropped at the end.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ortpkg.kernels.conv_epilogue import Epilogue
from ortpkg.kernels.op_kernel import Tensor
from ortpkg.kernels.polling import poll_run
from ortpkg.kernels.scratch import Slot, take_scratch
from ortpkg.kernels.sliding_windows import Windows

#: Elements of the input planes per block of channels: what stays in cache together with the sums.
_BLOCK = 1 << 16


def convolve_depthwise(
    x: Tensor, weight: Tensor, windows: Windows, epilogue: Epilogue, zero_point: float = 0
) -> None:
    """``epilogue(conv(x - zero_point, weight))``.

    ``weight`` (channels · multiplier, 1, *kernel), a channel a group.
    """
    if len(windows.kernel) == 1:  # a row is a plane of height 1
        x, weight, windows = x[:, :, None], weight[:, :, None], windows.with_axis(0)
    channels, multiplier = x.shape[1], weight.shape[0] // x.shape[1]
    rows, columns = _plane_shape(windows)
    step = max(_BLOCK // (rows * columns), 1)
    blocks = [(n, first) for n in range(x.shape[0]) for first in range(0, channels, step)]
    phases = list(
        dict.fromkeys(
            (y % windows.strides[0], x_ % windows.strides[1]) for y, x_, _, _ in _taps(windows)
        )
    )
    sums = windows.output[0] * columns
    positions = slice(0, windows.output[0] * windows.output[1])

    def run(n: int, first: int) -> None:
        last = min(first + step, channels)
        count = last - first
        flat, total, product = take_scratch(
            Slot.PANEL,
            ((len(phases), count, rows * columns + columns), weight.dtype),
            ((count, sums), weight.dtype),
            ((count, sums), weight.dtype),
        )
        planes = dict(zip(phases, flat, strict=True))
        _fill_planes(x[n, first:last], windows, planes, rows, columns, zero_point)
        whole = slice(first * multiplier, last * multiplier)
        part = epilogue.part(n, whole, positions)
        for m in range(multiplier):
            _sum_taps(planes, weight[whole][m::multiplier, 0], windows, columns, total, product)
            np.copyto(
                part[m::multiplier].reshape(count, *windows.output),
                total.reshape(count, -1, columns)[:, :, : windows.output[1]],
            )
        epilogue.finish(part, n, whole, positions)

    for block in blocks:
        run(*block)


def _plane_shape(windows: Windows) -> tuple[int, int]:
    """A phase's plane: rows and columns such that each output stays inside at each tap's shift."""
    rows, columns = (
        count + (size - 1) * dilation // stride
        for count, size, dilation, stride in zip(
            windows.output, windows.kernel, windows.dilations, windows.strides, strict=True
        )
    )
    return rows, columns


def _fill_planes(
    x: Tensor,
    windows: Windows,
    planes: dict[tuple[int, int], Tensor],
    rows: int,
    columns: int,
    zero_point: float,
) -> None:
    """(row phase, column phase) → the input's every stride-th element, padded.

    Shape: (channels, rows · columns + slack).

    The slack after the last row lets the last tap's run read past the end; what it reads lands in
    dropped columns.
    """
    (height, width), (step_y, step_x) = x.shape[1:], windows.strides
    for (phase_y, phase_x), plane in planes.items():
        plane.fill(zero_point)
        target = plane[:, : rows * columns].reshape(x.shape[0], rows, columns)
        y_to, y_from = _overlap(height, windows.before[0], phase_y, step_y, rows)
        x_to, x_from = _overlap(width, windows.before[1], phase_x, step_x, columns)
        target[:, y_to, x_to] = x[:, y_from, x_from]
        if zero_point:
            np.subtract(plane, plane.dtype.type(zero_point), out=plane)


def _overlap(size: int, before: int, phase: int, stride: int, count: int) -> tuple[slice, slice]:
    """Which of ``count`` plane positions hold input: p holds element p·stride + phase - before."""
    start = max(-((phase - before) // stride), 0)
    stop = max(min((size - 1 + before - phase) // stride + 1, count), start)
    at = start * stride + phase - before
    return slice(start, stop), slice(at, at + max((stop - start - 1) * stride + 1, 0), stride)


def _taps(windows: Windows) -> Iterator[tuple[int, int, int, int]]:
    """(row offset, column offset, kernel row, kernel column) of every tap, in the padded input."""
    for i in range(windows.kernel[0]):
        for j in range(windows.kernel[1]):
            yield i * windows.dilations[0], j * windows.dilations[1], i, j


def _sum_taps(
    planes: dict[tuple[int, int], Tensor],
    weight: Tensor,
    windows: Windows,
    columns: int,
    total: Tensor,
    product: Tensor,
) -> None:
    """``total`` (channels, rows · columns) = the taps' planes, shifted, weighted, added up."""
    step_y, step_x = windows.strides
    length = total.shape[1]
    for number, (y, x, i, j) in enumerate(_taps(windows)):
        poll_run()
        shift = (y // step_y) * columns + x // step_x
        run = planes[y % step_y, x % step_x][:, shift : shift + length]
        np.multiply(run, weight[:, i, j, None], out=product if number else total)
        if number:
            np.add(total, product, out=total)
