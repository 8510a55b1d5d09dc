"""Depthwise convolution (one input channel per group, one or two spatial axes) as sums of shifted planes.

The padded input of a block of channels is split by stride phase into planes that lie flat in memory. A tap of the
kernel then is one contiguous run per channel, shifted by a constant, so that numpy works on long runs whatever the
row length: the sums have the planes' row length, and the surplus columns are dropped at the end.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ortpkg.kernels.op_kernel import Tensor
from ortpkg.kernels.windows import Windows

#: Elements of the input planes per block of channels: what stays in cache together with the sums.
_BLOCK = 1 << 16


def convolve_depthwise(x: Tensor, weight: Tensor, windows: Windows, out: Tensor) -> None:
    """``out = conv(x, weight)`` with ``weight`` (channels · multiplier, 1, *kernel) and as many groups as channels."""
    if len(windows.kernel) == 1:  # a row is a plane of height 1
        x, weight, out = x[:, :, None], weight[:, :, None], out[:, :, None]
        windows = Windows(
            kernel=(1, *windows.kernel),
            strides=(1, *windows.strides),
            dilations=(1, *windows.dilations),
            before=(0, *windows.before),
            after=(0, *windows.after),
            output=(1, *windows.output),
        )
    channels, multiplier = x.shape[1], weight.shape[0] // x.shape[1]
    rows, columns = _plane_shape(windows)
    step = max(_BLOCK // (rows * columns), 1)
    for n in range(x.shape[0]):
        for first in range(0, channels, step):
            last = min(first + step, channels)
            planes = _phase_planes(x[n, first:last], windows, rows, columns)
            for m in range(multiplier):
                own = slice(first * multiplier + m, last * multiplier, multiplier)
                _sum_taps(planes, weight[own, 0], windows, columns, out[n, own])


def _plane_shape(windows: Windows) -> tuple[int, int]:
    """Rows and columns of one phase's plane: every output position shifted by every tap lies inside."""
    rows, columns = (
        count + (size - 1) * dilation // stride
        for count, size, dilation, stride in zip(
            windows.output, windows.kernel, windows.dilations, windows.strides, strict=True
        )
    )
    return rows, columns


def _phase_planes(x: Tensor, windows: Windows, rows: int, columns: int) -> dict[tuple[int, int], Tensor]:
    """(row phase, column phase) → (channels, rows · columns + slack): every stride-th element of the padded input.

    The slack after the last row lets the last tap's run read past the end; what it reads lands in dropped columns.
    """
    planes: dict[tuple[int, int], Tensor] = {}
    (height, width), (step_y, step_x) = x.shape[1:], windows.strides
    for phase_y, phase_x in dict.fromkeys((y % step_y, x_ % step_x) for y, x_, _, _ in _taps(windows)):
        plane = np.zeros((x.shape[0], rows * columns + columns), x.dtype)
        target = plane[:, : rows * columns].reshape(x.shape[0], rows, columns)
        y_to, y_from = _overlap(height, windows.before[0], phase_y, step_y, rows)
        x_to, x_from = _overlap(width, windows.before[1], phase_x, step_x, columns)
        target[:, y_to, x_to] = x[:, y_from, x_from]
        planes[phase_y, phase_x] = plane
    return planes


def _overlap(size: int, before: int, phase: int, stride: int, count: int) -> tuple[slice, slice]:
    """Which of ``count`` plane positions hold input elements, and which ones: p holds p·stride + phase - before."""
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
    planes: dict[tuple[int, int], Tensor], weight: Tensor, windows: Windows, columns: int, out: Tensor
) -> None:
    """``out`` (channels, rows, columns) = the taps' planes, each shifted and weighted, added up."""
    (step_y, step_x), height = windows.strides, windows.output[0]
    length = height * columns
    total = np.empty((len(weight), length), out.dtype)
    product = np.empty_like(total)
    for number, (y, x, i, j) in enumerate(_taps(windows)):
        shift = (y // step_y) * columns + x // step_x
        run = planes[y % step_y, x % step_x][:, shift : shift + length]
        np.multiply(run, weight[:, i, j, None], out=product if number else total)
        if number:
            np.add(total, product, out=total)
    np.copyto(out, total.reshape(len(weight), height, columns)[:, :, : windows.output[1]])
