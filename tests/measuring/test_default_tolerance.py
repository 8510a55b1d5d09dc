from __future__ import annotations

import numpy as np
import pytest

from ortpkg.selection.matching.variant_facts import Precision
from ortpkg.selection.measuring.accuracy import (
    DEFAULT_TOLERANCE,
    Distance,
    default_tolerance,
    distance,
)

_EXPECTED = np.array([-50.0, 0.01, np.nan, np.inf], np.float32)


@pytest.mark.parametrize("precision", [None, Precision.FP32, Precision.FP64])
def test_what_computes_in_more_bits_has_the_tolerance_of_float32(
    precision: Precision | None,
) -> None:
    assert default_tolerance(_EXPECTED, precision) == DEFAULT_TOLERANCE


@pytest.mark.parametrize(
    ("expected", "absolute"),
    [(_EXPECTED, 1.0), (np.zeros(3, np.float32), 1e-4), (np.empty(0, np.float32), 1e-4)],
)
def test_16_bits_may_be_off_by_a_part_of_the_largest_number(
    expected: np.ndarray, absolute: float
) -> None:
    found = default_tolerance(expected, Precision.FP16)
    assert found.absolute == pytest.approx(absolute)
    assert found.relative == 0.02


def test_texts_have_the_tolerance_of_whatever_else() -> None:
    assert default_tolerance(np.array(["a"]), Precision.FP16) == DEFAULT_TOLERANCE


@pytest.mark.parametrize(("error", "is_within"), [(0.5, True), (3.0, False)])
def test_rounding_to_bfloat16_is_within_and_nonsense_is_not(error: float, is_within: bool) -> None:
    expected = np.array([100.0, 1.0], np.float32)
    tolerances = {"y": default_tolerance(expected, Precision.FP16)}
    found = distance({"y": expected + np.float32(error)}, {"y": expected}, tolerances)
    assert found.is_within is is_within
    assert found.max_abs_error == pytest.approx(error)


def _int8(actual: np.ndarray, expected: np.ndarray) -> Distance:
    return distance(
        {"y": actual}, {"y": expected}, {"y": default_tolerance(expected, Precision.INT8)}
    )


def test_quantization_that_keeps_the_direction_is_within_and_a_ruined_calibration_is_not() -> None:
    """0.94 % of the largest number off, cosine 0.9995; and one number for all."""
    random = np.random.default_rng(0)
    expected = random.normal(size=(64, 10)).astype(np.float32) * 10
    largest = float(np.abs(expected).max())
    static = expected + np.float32(0.0094 * largest) * np.sign(random.normal(size=(64, 10)))
    good = _int8(static.astype(np.float32), expected)
    assert good.is_within is True
    assert good.cosine is not None
    assert good.cosine > 0.999
    assert distance({"y": static}, {"y": expected}, {"y": DEFAULT_TOLERANCE}).is_within is False
    ruined = _int8(np.full_like(expected, expected.mean()), expected)
    assert ruined.is_within is False
    assert "of its largest number" in ruined.what
    assert "allowed is 0.0001 and 0.25 of the largest number, with a cosine of 0.98" in ruined.what


def test_an_int8_output_of_another_scale_or_of_another_number_is_not_within() -> None:
    expected = np.array([1.0, -2.0, 3.0], np.float32)
    assert _int8(expected * 2, expected).is_within is False
    assert _int8(expected * np.float32(1.05), expected).is_within is True
    assert _int8(np.array([1, 2]), np.array([1, 3])).is_within is False


def test_a_failure_says_error_scale_direction_and_limit() -> None:
    expected = np.array([10.0, 0.0], np.float32)
    found = distance({"y": expected + 1}, {"y": expected}, {"y": DEFAULT_TOLERANCE})
    assert found.what == (
        "y is off by up to 1 (10.00% of its largest number, 10; cosine 0.99589); allowed is 0.0001"
        " and 0.001 of each number"
    )
