"""Outputs in few bits are judged by what differs between samples, not by what all share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ortpkg.api.samples.sample_runner import run_samples
from ortpkg.package.formats.samples import SampleSet, Tolerance
from ortpkg.selection.matching.variant_facts import Precision
from ortpkg.selection.measuring.accuracy import default_tolerance, is_within
from ortpkg.selection.measuring.output_variation import variation_fault

_RANDOM = np.random.default_rng(4)
_ROWS = _RANDOM.normal(size=(64, 64)).astype(np.float32)
_WEIGHTS = (_RANDOM.normal(size=(64, 10)) / 8).astype(np.float32)
_LOGITS = _ROWS @ _WEIGHTS
#: Activations of a calibration that saw a tenth of the range.
_CLIPPED = np.clip(_ROWS, -0.3, 0.3) @ _WEIGHTS
_COLUMNS = np.where(np.arange(10) % 2, 20, -20).astype(np.float32)
_BIASES = [np.float32(20), np.float32(-20), _COLUMNS]


def _rows(array: np.ndarray) -> list[np.ndarray]:
    return list(array[:, np.newaxis])


def _fault(actual: np.ndarray, expected: np.ndarray, precision: Precision) -> str:
    return variation_fault("y", _rows(actual), _rows(expected), precision)


@pytest.mark.parametrize("precision", [Precision.INT8, Precision.INT4])
@pytest.mark.parametrize("bias", _BIASES)
def test_a_bias_hides_no_ruin(bias: np.ndarray, precision: Precision) -> None:
    expected, actual = _LOGITS + bias, _CLIPPED + bias
    for row, wanted in zip(actual, expected, strict=True):  # each by itself passes
        assert is_within(row, wanted, default_tolerance(wanted, precision))
    fault = _fault(actual, expected, precision)
    assert fault.startswith("y is off by up to ")
    assert "of its largest difference from the mean" in fault
    one_feed = variation_fault("y", [actual], [expected], precision)
    assert one_feed == fault


def test_one_sample_is_judged_by_what_differs_between_its_elements() -> None:
    expected, actual = _LOGITS[:1] + 20, _CLIPPED[:1] + 20
    assert "from the mean, " in _fault(actual, expected, Precision.INT8)
    ragged = [expected, np.concatenate([expected, expected], axis=1)]
    clipped = [actual, np.concatenate([actual, actual], axis=1)]
    assert variation_fault("y", clipped, ragged, Precision.INT8)
    assert not variation_fault("y", ragged, ragged, Precision.INT8)


@pytest.mark.parametrize("bias", [np.float32(0), *_BIASES])
def test_rounding_to_8_bits_is_no_fault(bias: np.ndarray) -> None:
    """Weights, activations and output each rounded to 8 bits of their range."""

    def rounded(array: np.ndarray) -> np.ndarray:
        scale = np.abs(array).max() / 127
        return np.asarray(np.round(array / scale) * scale, np.float32)

    actual = rounded(rounded(_ROWS) @ rounded(_WEIGHTS) + bias)
    assert _fault(actual, _LOGITS + bias, Precision.INT8) == ""
    assert _fault(_LOGITS * np.float32(1.05) + bias, _LOGITS + bias, Precision.INT8) == ""


def test_probabilities_of_samples_that_are_alike_may_be_off_by_rounding() -> None:
    logits = np.zeros((64, 10)) + 5.0 * (np.arange(10) == 3) + _RANDOM.normal(size=(64, 10)) / 50
    noisy = logits + _RANDOM.normal(size=(64, 10)) / 10

    def softmax(array: np.ndarray) -> np.ndarray:
        powers = np.exp(array)
        return np.asarray(powers / powers.sum(axis=1, keepdims=True), np.float32)

    assert _fault(softmax(noisy), softmax(logits), Precision.INT8) == ""
    assert _fault(softmax(noisy)[:1], softmax(logits)[:1], Precision.INT8) == ""
    assert _fault(softmax(_CLIPPED), softmax(_LOGITS * 4), Precision.INT8)


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (np.full((3, 4), 5.3), np.full((3, 4), 5.0)),
        (np.full((64, 1), 5.3), np.full((64, 1), 5.0)),
        (np.full((1, 1), 5.3), np.full((1, 1), 5.0)),
        (np.zeros((3, 4)), np.zeros((3, 4))),
        (np.empty((3, 0)), np.empty((3, 0))),
        (np.array([[1, 2]]), np.array([[1, 3]])),
        (np.array([["a"]]), np.array([["b"]])),
        (np.array([[np.inf, np.nan, 1.0]]), np.array([[np.inf, np.nan, 1.0]])),
        (np.array([[1e308, 1e308, 1.0]]), np.array([[1e308, 1e308, 1.0]])),
    ],
)
def test_what_does_not_vary_has_no_fault(actual: np.ndarray, expected: np.ndarray) -> None:
    assert _fault(actual, expected, Precision.INT8) == ""


def test_other_precisions_and_missing_outputs_have_no_fault_here() -> None:
    expected = _LOGITS + 20
    for precision in (None, Precision.FP16, Precision.FP32):
        assert variation_fault("y", [_CLIPPED + 20], [expected], precision) == ""
    assert variation_fault("y", [None], [expected], Precision.INT8) == ""
    assert variation_fault("y", [expected[:3]], [expected], Precision.INT8) == ""


class _Output:
    name = "y"
    shape = ("N", 10)


class _Session:
    """Session that returns the clipped product of each row."""

    def run(
        self, output_names: Any, input_feed: Mapping[str, Any], run_options: Any = None
    ) -> list[Any]:
        del output_names, run_options
        return [np.clip(input_feed["x"], -0.3, 0.3) @ _WEIGHTS + np.float32(20)]

    def get_inputs(self) -> list[_Output]:
        return [_Output()]

    def get_outputs(self) -> list[_Output]:
        return [_Output()]


@pytest.mark.parametrize("batch_axis", [0, None])
@pytest.mark.parametrize("stated", [None, Tolerance(absolute=5.0)])
def test_samples_do_not_match_though_each_is_within(
    tmp_path: Path, batch_axis: int | None, stated: Tolerance | None
) -> None:
    np.savez(tmp_path / "in.npz", x=_ROWS)
    np.savez(tmp_path / "out.npz", y=_LOGITS + np.float32(20))
    sample_set = SampleSet(
        name="s",
        inputs=tmp_path / "in.npz",
        component=None,
        expected_outputs=tmp_path / "out.npz",
        batch_axis=batch_axis,
        tolerances={} if stated is None else {"y": stated},
    )
    report = run_samples(_Session(), sample_set, precision=Precision.INT8)
    assert all(result.is_expected for result in report.results)
    assert report.matches is (stated is not None)
    assert len(report.faults) == (stated is None)
    assert run_samples(_Session(), sample_set, precision=Precision.FP32).faults == ()
