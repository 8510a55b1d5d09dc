"""Positions of Resize's nearest pixels, held against exact fractions."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import onnx
import pytest

from ortpkg.graph.shapes.resampling import Sampler, plans_from_scales, plans_from_sizes
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


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize(
    "dtype", [np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64]
)
def test_between_equal_integers_lies_the_same_integer(dtype: type[np.generic], mode: str) -> None:
    limits = np.iinfo(dtype)  # type: ignore[type-var]
    for number in (limits.min, limits.max, min(limits.max, 2**24 + 1), limits.max // 3):
        x = np.full((1, 1, 2, 3), number, dtype)
        scales = np.array([1, 1, 2, 3], np.float32)
        y = run_op("Resize", x, None, scales, mode=mode).ravel().tolist()
        # Sums are float64, which has 53 digits.
        assert max(abs(made - number) for made in y) <= abs(number) >> 51


def test_integers_beyond_their_type_are_its_limits() -> None:
    x = np.array([[[[-(2**31), 2**31 - 1, 2**31 - 1, -(2**31)]]]], np.int32)
    y = run_op("Resize", x, None, np.array([1, 1, 1, 4], np.float32), mode="cubic")
    assert y.max() == 2**31 - 1
    assert y.min() == -(2**31)
    assert (y[..., 7:9] == 2**31 - 1).all()


@pytest.mark.parametrize("attributes", [{"mode": "cubic"}, {"mode": "linear", "antialias": 1}])
def test_cubic_and_antialiased_sums_of_integers_are_rounded(attributes: dict[str, Any]) -> None:
    x = np.random.default_rng(5).integers(-100, 100, (1, 1, 6, 7)).astype(np.int8)
    scales = np.array([1, 1, 1.7, 0.6], np.float32)
    sums = run_op("Resize", x.astype(np.float64), None, scales, **attributes)
    y = run_op("Resize", x, None, scales, **attributes)
    np.testing.assert_array_equal(y, np.clip(np.rint(sums), -128, 127))


def test_linear_sums_of_integers_are_cut() -> None:
    x = np.array([[[[-3, 0, 3]]]], np.int8)
    y = run_op("Resize", x, None, np.array([1, 1, 1, 2], np.float32), mode="linear")
    assert y.ravel().tolist() == [-3, -2, 0, 0, 2, 3]
