from __future__ import annotations

import numpy as np
import pytest

from ortpkg.measuring.accuracy import DEFAULT_TOLERANCE, default_tolerance, distance
from ortpkg.selection.variant_facts import Precision

_EXPECTED = np.array([-50.0, 0.01, np.nan, np.inf], np.float32)


@pytest.mark.parametrize("precision", [None, Precision.INT8, Precision.FP32, Precision.FP64])
def test_what_does_not_compute_in_16_bits_has_the_tolerance_of_float32(
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
