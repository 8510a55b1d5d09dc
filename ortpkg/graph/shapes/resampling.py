"""Sampling of an axis by Resize and Upsample: each output is a weighted sum of a few inputs.

Source: the Resize operator (coordinate transformations, kernels, nearest modes, aspect-ratio
policies).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ortpkg.foundations.errors import quoted
from ortpkg.foundations.isolation.polling import poll_run
from ortpkg.graph.graph import Node

Tensor = npt.NDArray[Any]

_MODES = ("nearest", "linear", "cubic")
#: Elements of an output between two checks of limits; 2^24 texts take a tenth of a second.
_MOST_ELEMENTS_AT_ONCE = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisPlan:
    """Change of an axis from ``size`` to ``output`` by ``scale``, over the region [start, end]."""

    axis: int
    size: int
    output: int
    scale: float
    start: float = 0.0
    end: float = 1.0

    @property
    def length(self) -> float:
        """Size of the scaled axis before it is rounded down.

        It is exactly ``output`` if the scale is output / size in float32, so that positions fall
        exactly on a pixel, or between two, where they should.
        """
        if self.size and np.float32(self.output / self.size) == np.float32(self.scale):
            return self.output
        return self.scale * self.size

    @property
    def changes(self) -> bool:
        """True if there is anything to do on this axis."""
        return self.output != self.size or self.scale != 1 or (self.start, self.end) != (0.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampler:
    """Attributes of the node, from which it computes positions and weights."""

    mode: str
    coordinates: str
    nearest: str
    cubic_a: float
    antialias: bool
    exclude_outside: bool
    extrapolation_value: float

    @classmethod
    def of(cls, node: Node, attribute: Callable[[str, Any], Any]) -> Sampler:
        """Read a node's attributes. Raises ValueError for an unknown mode.

        ``attribute`` returns a value of the node's, or the default that it is given.
        """
        mode = str(attribute("mode", "nearest"))
        mode = "linear" if mode == "bilinear" else mode
        if mode not in _MODES:
            raise ValueError(f"there is no resize mode {quoted(mode)}: {', '.join(_MODES)} exist")
        return cls(
            mode=mode,
            # Versions before 11 know one transformation only, and floor for the nearest element.
            coordinates=(
                str(attribute("coordinate_transformation_mode", "half_pixel"))
                if node.since_version >= 11 and node.op_type == "Resize"
                else "asymmetric"
            ),
            nearest=(
                str(attribute("nearest_mode", "round_prefer_floor"))
                if node.since_version >= 11 and node.op_type == "Resize"
                else "floor"
            ),
            cubic_a=attribute("cubic_coeff_a", -0.75),
            antialias=bool(attribute("antialias", 0)),
            exclude_outside=bool(attribute("exclude_outside", 0)),
            extrapolation_value=attribute("extrapolation_value", 0.0),
        )

    def origins(self, plan: AxisPlan) -> Tensor:
        """Return the position of each output element on the input axis (float64)."""
        positions = np.arange(plan.output, dtype=np.float64)
        length = plan.length
        if self.coordinates == "align_corners":
            return positions * (plan.size - 1) / (length - 1 if length != 1 else np.inf)
        if self.coordinates == "asymmetric":
            return positions * plan.size / length
        if self.coordinates == "tf_crop_and_resize":
            span = (plan.end - plan.start) * (plan.size - 1)
            inside = positions * (span / (length - 1)) if length != 1 else positions * 0 + span / 2
            return inside + plan.start * (plan.size - 1)
        if self.coordinates == "pytorch_half_pixel" and plan.output == 1:
            return np.zeros(1)
        half_pixel = (positions + 0.5) * plan.size / length - 0.5
        if self.coordinates == "half_pixel_symmetric":
            return half_pixel + plan.size / 2 * (1 - plan.output / length)
        if self.coordinates not in ("half_pixel", "pytorch_half_pixel"):
            raise ValueError(f"there is no coordinate transformation {quoted(self.coordinates)}")
        return half_pixel

    def nearest_positions(self, origins: Tensor, size: int) -> Tensor:
        """Return the index nearest to each origin, inside an axis of ``size``."""
        if self.nearest == "floor":
            positions = np.floor(origins)
        elif self.nearest == "ceil":
            positions = np.ceil(origins)
        elif self.nearest == "round_prefer_ceil":
            positions = np.floor(origins + 0.5)
        elif self.nearest == "round_prefer_floor":
            positions = np.ceil(origins - 0.5)
        else:
            raise ValueError(f"there is no nearest mode {quoted(self.nearest)}")
        return np.clip(positions, 0, size - 1).astype(np.intp)

    def taps(self, origins: Tensor, size: int, scale: float) -> tuple[Tensor, Tensor]:
        """Return (positions, weights), each (output, taps): neighbours, clamped to the axis."""
        stretch = min(scale, 1.0) if self.antialias else 1.0
        reach = 1 if self.mode == "linear" else 2
        first = math.floor(-reach / stretch) + 1
        left = np.ceil(origins) - 1  # so that the origin lies in (left, left + 1]
        offsets = np.arange(first, 2 - first)
        distance = np.abs(offsets - (origins - left)[:, None]) * stretch
        weights = np.clip(1 - distance, 0, 1) if self.mode == "linear" else self._cubic(distance)
        positions = left[:, None] + offsets
        if self.exclude_outside:
            weights = np.where((positions < 0) | (positions >= size), 0, weights)
        total = weights.sum(axis=1, keepdims=True)
        weights = weights / np.where(total == 0, 1, total)
        return np.clip(positions, 0, size - 1).astype(np.intp), weights

    def taps_nbytes(self, plan: AxisPlan) -> int:
        """Return the most bytes of the positions and weights of one axis."""
        reach = 4 / min(plan.scale, 1.0) if self.antialias else 4
        arrays = 10 if self.mode == "cubic" else 6
        return math.ceil(min(reach, 1e15) + 2) * plan.output * arrays * 8

    def result_nbytes(self, x: Tensor, plan: AxisPlan) -> int:
        """Return the bytes of :meth:`resample`'s result; sums also need a tap and its product."""
        result_nbytes = x.nbytes // max(plan.size, 1) * plan.output
        return result_nbytes if self.mode == "nearest" else 3 * result_nbytes

    def _cubic(self, distance: Tensor) -> Tensor:
        """Keys' cubic convolution kernel with parameter ``cubic_a``."""
        a = self.cubic_a
        near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
        far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
        return np.where(distance <= 1, near, np.where(distance < 2, far, 0))

    def resample(self, x: Tensor, plan: AxisPlan) -> Tensor:
        """Resample one axis of ``x``; for integers only the nearest mode keeps the type."""
        origins = self.origins(plan)
        if self.mode == "nearest":
            result = _taken(x, self.nearest_positions(origins, plan.size), plan.axis)
        else:
            positions, weights = self.taps(origins, plan.size, plan.scale)
            weights = weights.astype(x.real.dtype)
            shape = (-1,) + (1,) * (x.ndim - plan.axis - 1)
            result = np.take(x, positions[:, 0], axis=plan.axis) * weights[:, 0].reshape(shape)
            for tap in range(1, positions.shape[1]):
                poll_run()
                result += np.take(x, positions[:, tap], axis=plan.axis) * weights[:, tap].reshape(
                    shape
                )
        if self.coordinates == "tf_crop_and_resize":
            outside = (origins < 0) | (origins > plan.size - 1)
            result[(slice(None),) * plan.axis + (outside,)] = self.extrapolation_value
        return result


def _taken(x: Tensor, positions: Tensor, axis: int) -> Tensor:
    """Return ``x`` at positions of one axis; between blocks, check if the run is to end."""
    slice_elements = max(x.size // max(x.shape[axis], 1), 1)
    at_once = max(_MOST_ELEMENTS_AT_ONCE // slice_elements, 1)
    if len(positions) <= at_once:
        return np.take(x, positions, axis=axis)
    before = (slice(None),) * axis
    result = np.empty((*x.shape[:axis], len(positions), *x.shape[axis + 1 :]), x.dtype)
    for start in range(0, len(positions), at_once):
        poll_run()
        block = slice(start, start + at_once)
        result[(*before, block)] = np.take(x, positions[block], axis=axis)
    return result


#: Largest denominator of scales whose products with sizes are exact.
_MOST_PARTS = 16


def scale_as_ratio(scale: float) -> tuple[int, int] | None:
    """Return (p, q) such that scaling makes ``size * p // q`` of every ``size``.

    None for a scale whose product with a size is rounded.
    """
    numerator, denominator = scale.as_integer_ratio()
    return (numerator, denominator) if denominator <= _MOST_PARTS else None


def scaled_size(size: int, scale: float) -> int:
    """Return the size of an axis after scaling.

    The product is rounded to float32 and then down, as in onnx and onnxruntime: 10 times 0.7 is 7,
    though the float32 nearest to 0.7 is smaller.
    """
    ratio = scale_as_ratio(scale)
    if ratio is not None:
        return size * ratio[0] // ratio[1]
    return math.floor(np.float32(size) * np.float32(scale))


def plans_from_scales(
    shape: Sequence[int], scales: Sequence[float], axes: Sequence[int], roi: Sequence[float]
) -> list[AxisPlan]:
    """Return the plan of each axis if ``axes`` are scaled.

    Raises:
        ValueError: scales or sizes are not possible.
    """
    if len(scales) != len(axes) or any(not 0 < scale < math.inf for scale in scales):
        raise ValueError(
            f"scales {list(scales)} are not one positive number for each of the axes {list(axes)}"
        )
    by_axis = dict(zip(axes, scales, strict=True))
    regions = _regions(axes, roi)
    plans = []
    for axis, size in enumerate(shape):
        scale = by_axis.get(axis, 1.0)
        start, end = regions.get(axis, (0.0, 1.0))
        output = scaled_size(size, (end - start) * scale) if axis in by_axis else size
        plans.append(
            AxisPlan(axis=axis, size=size, output=output, scale=scale, start=start, end=end)
        )
    return plans


def plans_from_sizes(
    shape: Sequence[int],
    sizes: Sequence[int],
    axes: Sequence[int],
    roi: Sequence[float],
    policy: str,
) -> list[AxisPlan]:
    """Return the plan of each axis if ``axes`` get sizes, by the aspect-ratio policy.

    Raises:
        ValueError: the sizes do not fit the axes, or the policy is unknown.
    """
    if len(sizes) != len(axes) or any(size < 0 for size in sizes):
        raise ValueError(f"sizes {list(sizes)} are not one for each of the axes {list(axes)}")
    by_axis = dict(zip(axes, sizes, strict=True))
    if any(shape[axis] == 0 and size for axis, size in by_axis.items()):
        raise ValueError(
            f"an input of shape {tuple(shape)} has an empty axis, which cannot grow to sizes"
            f" {list(sizes)}"
        )
    scales = {axis: size / shape[axis] if size else 1.0 for axis, size in by_axis.items()}
    if policy != "stretch" and scales:
        if policy not in ("not_larger", "not_smaller"):
            raise ValueError(f"there is no aspect-ratio policy {quoted(policy)}")
        scale = min(scales.values()) if policy == "not_larger" else max(scales.values())
        scales = dict.fromkeys(scales, scale)
        by_axis = {axis: math.floor(scale * shape[axis] + 0.5) for axis in axes}
    regions = _regions(axes, roi)
    return [
        AxisPlan(
            axis=axis,
            size=size,
            output=by_axis.get(axis, size),
            scale=scales.get(axis, 1.0),
            start=regions.get(axis, (0.0, 1.0))[0],
            end=regions.get(axis, (0.0, 1.0))[1],
        )
        for axis, size in enumerate(shape)
    ]


def _regions(axes: Sequence[int], roi: Sequence[float]) -> dict[int, tuple[float, float]]:
    """Return axis → (start, end) in normalized coordinates.

    ONNX lists all starts, then all ends.
    """
    if not roi:
        return {}
    if len(roi) != 2 * len(axes):
        raise ValueError(
            f"a region of {len(roi)} numbers does not fit {len(axes)} axes: two per axis are needed"
        )
    return {axis: (roi[slot], roi[len(axes) + slot]) for slot, axis in enumerate(axes)}
