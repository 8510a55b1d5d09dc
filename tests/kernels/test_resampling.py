"""Positions of Resize's nearest pixels, held against exact fractions."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from ortpkg.kernels.resampling import Sampler, plans_from_scales, plans_from_sizes

_HALF = Fraction(1, 2)
_ROUND: dict[str, Callable[[Fraction], int]] = {
    "floor": math.floor,
    "ceil": math.ceil,
    "round_prefer_floor": lambda origin: math.ceil(origin - _HALF),
    "round_prefer_ceil": lambda origin: math.floor(origin + _HALF),
}
_SIZES = [(7, 9), (20, 14), (2, 50), (8, 51), *((a, b) for a in range(1, 24) for b in range(1, 24))]


def origin(coordinates: str, position: int, size: int, output: int) -> Fraction:
    if coordinates == "align_corners":
        return Fraction(position * (size - 1), output - 1) if output > 1 else Fraction(0)
    if coordinates == "asymmetric":
        return Fraction(position * size, output)
    return (position + _HALF) * Fraction(size, output) - _HALF


@pytest.mark.parametrize("given", ["sizes", "scales"])
@pytest.mark.parametrize("nearest", _ROUND)
@pytest.mark.parametrize("coordinates", ["half_pixel", "asymmetric", "align_corners"])
def test_nearest_pixel_is_that_of_exact_fractions(
    coordinates: str, nearest: str, given: str
) -> None:
    sampler = Sampler(
        mode="nearest",
        coordinates=coordinates,
        nearest=nearest,
        cubic_a=-0.75,
        antialias=False,
        exclude_outside=False,
        extrapolation_value=0.0,
    )
    for size, output in _SIZES:
        if given == "sizes":
            (plan,) = plans_from_sizes((size,), (output,), (0,), (), "stretch")
        else:
            scale = float(np.float32(output / size))
            (plan,) = plans_from_scales((size,), (scale,), (0,), ())
        if plan.output != output:  # the rounded scale lies below
            continue
        expected = [
            min(max(_ROUND[nearest](origin(coordinates, at, size, output)), 0), size - 1)
            for at in range(output)
        ]
        positions = sampler.nearest_positions(sampler.origins(plan), size)
        assert positions.tolist() == expected, (size, output)
