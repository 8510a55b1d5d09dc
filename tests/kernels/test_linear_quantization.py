"""Sums and floats become integers as the formula says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ortpkg.runtime.kernels.linear_quantization import quantize_into, round_into

RANDOM = np.random.default_rng(3)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("zero_point", [0, 7, 100])
def test_sums_are_scaled_rounded_to_even_shifted_and_saturated(dtype: Any, zero_point: int) -> None:
    sums = RANDOM.integers(-2000, 2000, (3, 400)).astype(np.float32)
    factor = np.array([0.5, 0.25, 0.125], np.float32)  # products are exact, halves included
    limits = np.iinfo(dtype)
    expected = np.clip(np.rint(sums * factor[:, None]) + zero_point, limits.min, limits.max).astype(
        dtype
    )
    out = np.zeros((3, 800), dtype)
    round_into(out[:, ::2], sums * factor[:, None], np.asarray(zero_point, dtype))
    np.testing.assert_array_equal(out[:, ::2], expected)
    assert not out[:, 1::2].any()


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16])
def test_tensors_and_axes_quantize_as_the_formula_says(dtype: Any) -> None:
    x = RANDOM.normal(size=(4, 33)).astype(np.float32) * 100
    x[1, 3], x[2, 5], x[3, 7] = np.inf, -np.inf, np.nan
    limits = np.iinfo(dtype)
    for scale in (np.float32(0.37), np.array([[0.5], [0.3], [2.0], [1.1]], np.float32)):
        point = np.asarray(5, dtype)
        rounded = np.rint(x / scale) + np.float32(5)
        expected = np.where(np.isnan(rounded), limits.min, np.clip(rounded, limits.min, limits.max))
        out = np.empty(x.shape, dtype)
        quantize_into(out, x, np.asarray(scale), point)
        np.testing.assert_array_equal(out, expected)
