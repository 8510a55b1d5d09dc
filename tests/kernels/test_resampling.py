"""Positions of Resize's nearest pixels, held against exact fractions."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import onnx
import pytest

from ortpkg.kernels.resampling import Sampler, plans_from_scales, plans_from_sizes
from tests.kernels.node_runner import run_op

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


@pytest.mark.parametrize("scale", [0.7, 2.3, 1.5, 1 / 3, 0.1])
def test_sizes_are_rounded_down_from_products_of_float32(scale: float) -> None:
    """An axis of 10 times 0.7 is one of 7, in onnxruntime too."""
    onnxruntime = pytest.importorskip("onnxruntime")
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[n] x) => (float[m] y)'
        f" <float[1] s = {{{scale}}}> {{ y = Resize(x, , s) }}"
    )
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    scales = np.array([scale], np.float32)
    for size in (10, 20, 27, 30):
        x = np.ones(size, np.float32)
        (expected,) = session.run(None, {"x": x})
        assert run_op("Resize", x, None, scales, opset=17).shape == expected.shape
