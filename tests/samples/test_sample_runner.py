"""Samples: what is compared, counted and shown, and what is said where they do not fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ortpkg.api.samples.sample_runner import present, run_samples
from ortpkg.foundations.errors import PackageError, PackageFormatError
from ortpkg.package.formats.samples import Display, DisplayKind, Labels, SampleSet, Tolerance
from ortpkg.package.package_info import ValueInfo
from ortpkg.selection.matching.variant_facts import Precision
from ortpkg.selection.measuring.accuracy import is_within, largest_difference

CLASS = Display(output="y", kind=DisplayKind.CLASS, classes=("a", "b", "c"))


class Session:
    """Computes ``y`` from ``x`` with a function."""

    def __init__(
        self, function: Callable[[Any], Any] = lambda x: x, batch: int | str = "N"
    ) -> None:
        self._function = function
        self._batch = batch
        self.feeds: list[Any] = []

    def get_inputs(self) -> Sequence[ValueInfo]:
        return [ValueInfo(name="x", type="tensor(float)", shape=(self._batch, 3))]

    def get_outputs(self) -> Sequence[ValueInfo]:
        return [ValueInfo(name="y", type="tensor(float)", shape=(self._batch, 3))]

    def run(
        self, output_names: Any, input_feed: Mapping[str, Any], run_options: Any = None
    ) -> list[Any]:
        self.feeds.append(input_feed["x"])
        return [self._function(input_feed["x"])]


INPUTS = np.array([[0, 1, 5], [4, 0, 1], [2, 3, 0]], np.float32)


def samples(
    tmp_path: Path, *, labels: Any = None, expected: Any = None, **values: Any
) -> SampleSet:
    np.savez(tmp_path / "inputs.npz", x=values.pop("inputs", INPUTS))
    if labels is not None:
        np.savez(tmp_path / "labels.npz", labels=labels)
        values["labels"] = Labels(file=tmp_path / "labels.npz", name="labels")
    if expected is not None:
        np.savez(tmp_path / "outputs.npz", **expected)
        values["expected_outputs"] = tmp_path / "outputs.npz"
    return SampleSet(
        name="s", inputs=tmp_path / "inputs.npz", **{"batch_axis": 0, "display": CLASS, **values}
    )


def test_the_class_of_the_largest_output_is_shown_and_compared_with_the_label(
    tmp_path: Path,
) -> None:
    report = run_samples(Session(), samples(tmp_path, labels=np.array([2, 0, 2])))
    assert [result.shown for result in report.results] == ["c", "a", "b"]
    assert [result.label for result in report.results] == ["c", "a", "c"]
    assert (report.right, report.labelled, report.matches) == (2, 3, None)


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        (np.array([[1], [2]]), ["b", "c"]),
        (np.array([["dog"], ["cat"]], dtype=object), ["dog", "cat"]),
        (np.array([[7], [0]]), ["7", "a"]),
    ],
)
def test_an_output_that_is_the_class_itself_is_shown_as_that(
    tmp_path: Path, output: Any, shown: list[str]
) -> None:
    assert present(samples(tmp_path), {"y": output}) == shown


@pytest.mark.parametrize("off", [0.0, 0.5])
def test_outputs_are_compared_with_what_the_package_expects(tmp_path: Path, off: float) -> None:
    expected = INPUTS.copy()
    expected[1, 2] += off
    report = run_samples(Session(), samples(tmp_path, expected={"y": expected}))
    assert [result.is_expected for result in report.results] == [True, off == 0, True]
    assert (report.matches, report.errors["y"]) == (off == 0, off)


def test_a_fixed_batch_is_filled_up_and_each_sample_counted_once(tmp_path: Path) -> None:
    session = Session(batch=2)
    report = run_samples(session, samples(tmp_path), keep_outputs=True)
    assert [feed.tolist() for feed in session.feeds[1:]] == [
        INPUTS[:2].tolist(),
        INPUTS[[2, 2]].tolist(),
    ]
    assert len(report.results) == 3
    assert report.outputs["y"].tolist() == INPUTS.tolist()


def test_outputs_are_kept_only_where_they_are_asked_for(tmp_path: Path) -> None:
    assert run_samples(Session(), samples(tmp_path)).outputs == {}


def test_kept_outputs_of_different_shapes_stay_apart(tmp_path: Path) -> None:
    session = Session(lambda x: x[:, : int(x[0, 0])])
    report = run_samples(session, samples(tmp_path, display=None), keep_outputs=True)
    assert [each.tolist() for each in report.outputs["y"]] == [[], [4, 0, 1], [2, 3]]


@pytest.mark.parametrize(
    ("values", "function", "message"),
    [
        (
            {"expected": {"z": INPUTS}},
            None,
            "they expect the output 'z', which the model does not have",
        ),
        (
            {"expected": {"y": INPUTS[:2]}},
            None,
            "must have one leading axis of the same length; lengths here: 2, 3",
        ),
        ({"inputs": np.float32(1)}, None, "lengths here: None"),
        (
            {"labels": np.zeros(2, int)},
            None,
            r"of 3 labels, one per sample; it has an array of shape \[2\]",
        ),
        ({"labels": np.zeros((3, 1), int)}, None, r"it has an array of shape \[3, 1\]"),
        (
            {"display": Display(output="z", kind=DisplayKind.CLASS)},
            None,
            "they display the output 'z'",
        ),
        ({}, lambda x: x.sum(), r"outputs have samples in their leading axis; 'y' is no tensor"),
        ({}, lambda x: x[:0], r"'y' has the shape \[0, 3\]"),
        ({}, lambda x: np.concatenate([x, x]), r"'y' has the shape \[2, 3\]"),
        ({}, lambda x: [x], "'y' is no tensor"),
    ],
)
def test_samples_that_do_not_fit_are_an_error_of_the_package(
    tmp_path: Path, values: dict[str, Any], function: Callable[[Any], Any] | None, message: str
) -> None:
    session = Session() if function is None else Session(function)
    with pytest.raises(PackageFormatError, match=message):
        run_samples(session, samples(tmp_path, **values))


def test_a_damaged_file_of_the_samples_is_an_error_of_the_package(tmp_path: Path) -> None:
    made = samples(tmp_path)
    made.inputs.write_bytes(made.inputs.read_bytes()[:50])
    with pytest.raises(PackageError, match="samples: cannot read") as caught:
        run_samples(Session(), made)
    assert caught.value.exit_code == 4


def test_no_samples_are_no_failure(tmp_path: Path) -> None:
    report = run_samples(Session(), samples(tmp_path, inputs=np.zeros((0, 3), np.float32)))
    assert (len(report.results), report.matches, report.median_latency_s) == (0, None, 0.0)


NAN = float("nan")


@pytest.mark.parametrize(
    ("actual", "expected", "difference"),
    [
        (np.array([1.0, NAN]), np.array([1.0, NAN]), 0.0),
        (np.array([1.0, NAN]), np.array([1.0, 2.0]), float("inf")),
        (np.array([1.0]), np.array([1.0, 1.0]), float("inf")),
        (np.array([np.inf]), np.array([np.inf]), 0.0),
        (np.array([np.inf]), np.array([1.0]), float("inf")),
        (np.array([True]), np.array([False]), 1.0),
        (np.array([1 + 2j]), np.array([1 + 5j]), 3.0),
        (
            np.array([1, 2], ml_dtypes.bfloat16),
            np.array([1, 4], ml_dtypes.bfloat16).view("V2"),
            2.0,
        ),
        (np.array(["a"], dtype=object), np.array(["a"]), 0.0),
        (np.array(["a"], dtype=object), np.array(["b"]), float("inf")),
        (np.array(["1.0"], dtype=object), np.array([1.0]), float("inf")),
        (np.float32(3), np.array(1.0), 2.0),
        ([np.zeros(1)], np.zeros(1), float("inf")),
        (None, np.zeros(1), float("inf")),
    ],
)
def test_the_largest_difference_and_tolerance_agree(
    actual: Any, expected: Any, difference: float
) -> None:
    assert largest_difference(actual, expected) == difference
    assert is_within(actual, expected, Tolerance()) is (difference == 0)
    assert is_within(actual, expected, Tolerance(absolute=5)) is (difference <= 5)


@pytest.mark.parametrize(
    ("precision", "matches"), [(None, False), (Precision.FP32, False), (Precision.FP16, True)]
)
def test_without_a_tolerance_outputs_are_judged_by_the_precision_of_the_variant(
    tmp_path: Path, precision: Precision | None, matches: bool
) -> None:
    own = samples(tmp_path, expected={"y": INPUTS})
    report = run_samples(Session(lambda x: x * np.float32(1.005)), own, precision=precision)
    assert report.matches is matches
