"""GridSample: an image (N, C, *sizes) read where a grid says, in two or more dimensions."""

from __future__ import annotations

import itertools
import math

import numpy as np

from ortpkg.foundations.errors import InvalidGraphError, quoted
from ortpkg.runtime.kernels.axes import reshaped_view
from ortpkg.runtime.kernels.element_types import widened, widened_nbytes
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor
from ortpkg.runtime.kernels.special_functions import BLOCK

#: Names of modes in version 16 that differ from later ones.
_MODES = {
    "linear": "linear",
    "bilinear": "linear",
    "nearest": "nearest",
    "cubic": "cubic",
    "bicubic": "cubic",
}
_PADDINGS = ("zeros", "border", "reflection")
_CUBIC = -0.75
#: Least number of points that are read at a time, even from an image with many channels.
_LEAST_POINTS = 1024
_FARTHEST = float(1 << 40)

#: One item for each tap of an axis: index, True if there is such a pixel, weight.
_Taps = list[tuple[Tensor, Tensor, Tensor]]


@kernel("GridSample", since=(16, 20, 22))
def grid_sample(info: OpKernelInfo) -> Compute:
    mode, padding = (
        str(info.attribute("mode", "linear")),
        str(info.attribute("padding_mode", "zeros")),
    )
    if mode not in _MODES or padding not in _PADDINGS:
        raise InvalidGraphError(
            f"{info.node}: no mode {quoted(mode)} with padding {quoted(padding)}",
            node_name=info.node.name,
        )
    align_corners = bool(info.attribute("align_corners", 0))

    def compute(context: OpKernelContext, x: Tensor, grid: Tensor) -> Tensor:
        rank = x.ndim - 2
        if rank < 1 or grid.ndim != x.ndim or grid.shape[0] != x.shape[0] or grid.shape[-1] != rank:
            raise ValueError(
                f"a grid of shape {grid.shape} does not place points in images of shape {x.shape}"
            )
        spots = grid.shape[1:-1]
        out = context.output(0, (*x.shape[:2], *spots), x.dtype)
        if not out.size:
            return out
        at_once = min(max(BLOCK // max(x.shape[1], 1), _LEAST_POINTS), math.prod(spots))
        sums_nbytes = 4 * x.shape[1] * at_once * np.dtype(np.float64).itemsize
        context.check_allocation(sums_nbytes + widened_nbytes(x[:1]))
        for image, points_grid, target in zip(x, grid, out, strict=True):
            sizes, flat = image.shape[1:], widened(image).reshape(image.shape[0], -1)
            points, output_rows = (
                points_grid.reshape(-1, rank),
                reshaped_view(target, (len(target), -1)),
            )
            for start in range(0, len(points), at_once):
                context.check_cancelled()
                block = slice(start, start + at_once)
                part = widened(points[block])
                # Coordinates come as x, y[, z]: the last axis first.
                taps = [
                    _axis_taps(part[:, rank - 1 - axis], size, _MODES[mode], padding, align_corners)
                    for axis, size in enumerate(sizes)
                ]
                np.copyto(output_rows[:, block], _interpolated(flat, sizes, taps), casting="unsafe")
        return out

    return compute


def _interpolated(flat: Tensor, sizes: tuple[int, ...], taps: list[_Taps]) -> Tensor:
    """Return the sum over all combinations of taps of an image (C, pixels): (C, points)."""
    total = np.zeros(
        (len(flat), len(taps[0][0][0])), flat.dtype if flat.dtype.kind in "fc" else np.float32
    )
    if not flat.size:
        return total
    for combination in itertools.product(*taps):
        indices, inside, weights = zip(*combination, strict=True)
        values = flat[:, np.ravel_multi_index(indices, sizes)]
        weight = np.prod(weights, axis=0) * np.all(inside, axis=0)
        total += np.where(weight != 0, values * weight.astype(total.dtype), 0)
    return total


def _axis_taps(
    coordinates: Tensor, size: int, mode: str, padding: str, align_corners: bool
) -> _Taps:
    """Return the pixels along one axis that coordinates in [-1, 1] read, with their weights."""
    if align_corners:
        at, low, high = (coordinates + 1) / 2 * (size - 1), 0.0, size - 1.0
    else:
        at, low, high = ((coordinates + 1) * size - 1) / 2, -0.5, size - 0.5
    at = np.clip(np.nan_to_num(at, nan=-_FARTHEST), -_FARTHEST, _FARTHEST)
    if mode == "nearest":
        at = np.rint(at)
    outside = (at < low) | (at > high)
    if (
        padding == "border" and mode != "cubic"
    ):  # with "cubic", taps are padded one by one, and the coordinate is not
        at = np.where(outside, np.clip(at, 0, size - 1), at)
    elif padding == "reflection" and mode != "cubic":
        at = np.where(outside, _reflected(at, low, high), at)
    first = np.floor(at)
    weights = _weights(at - first, mode)
    start = first - (1 if mode == "cubic" else 0)
    return [
        (*_pixel(start + step, size, padding, low, high), weight)
        for step, weight in enumerate(weights)
    ]


def _weights(offset: Tensor, mode: str) -> list[Tensor]:
    """Return the weights of the taps around a coordinate ``offset`` above its floor.

    Source: Keys' cubic kernel with a = -0.75.
    """
    if mode == "nearest":
        return [np.ones_like(offset)]
    if mode == "linear":
        return [1 - offset, offset]
    distances = (offset + 1, offset, 1 - offset, 2 - offset)
    near = [((_CUBIC + 2) * d - (_CUBIC + 3)) * d * d + 1 for d in distances[1:3]]
    far = [
        ((_CUBIC * d - 5 * _CUBIC) * d + 8 * _CUBIC) * d - 4 * _CUBIC
        for d in (distances[0], distances[3])
    ]
    return [far[0], *near, far[1]]


def _pixel(
    index: Tensor, size: int, padding: str, low: float, high: float
) -> tuple[Tensor, Tensor]:
    """Return the pixel that an index means under the padding, and True if there is one."""
    inside = (index >= 0) & (index <= size - 1)
    if padding == "reflection":
        index = np.where(inside, index, np.rint(_reflected(index, low, high)))
    last = max(size - 1, 0)
    return np.clip(index, 0, last).astype(np.intp), np.ones_like(
        inside
    ) if padding != "zeros" else inside


def _reflected(at: Tensor, low: float, high: float) -> Tensor:
    """Reflect coordinates at both ends until they lie between them."""
    extent = high - low
    if extent <= 0:
        return np.full_like(at, low)
    distance = np.abs(at - low) % (2 * extent)
    return low + np.where(distance > extent, 2 * extent - distance, distance)
