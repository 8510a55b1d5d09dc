"""Samples against what they are for: tolerances and displays by name, labels by class."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.authoring.checks.trees import findings_of, npz, sample_tree, write_tree

CLASSES = {"output": "y", "as": "class"}


def _findings(
    tmp_path: Path, changes: dict[str, Any], labels: np.ndarray[Any, Any] | None = None
) -> list[tuple[str, str, str]]:
    tree = sample_tree()
    sample = tree["samples/samples.json"]["samples"][0]
    sample.update(changes)
    if labels is not None:
        sample["labels"] = {"file": "labels.npz", "name": "labels"}
        tree["samples/labels.npz"] = npz(labels=labels)
    found = findings_of(write_tree(tmp_path / "p", tree), select=["ORT51"])
    return [
        (rule, each.pointer, each.message.partition(": ")[2])
        for rule, own in found.items()
        for each in own
    ]


@pytest.mark.parametrize(
    "labels",
    [np.array([0, 1, 2, 3, 0]), np.array([3] * 5, np.uint8), np.array(["a", "b", "c", "d", "a"])],
)
def test_labels_that_are_classes_are_right(tmp_path: Path, labels: np.ndarray[Any, Any]) -> None:
    display = {**CLASSES, "classes": ["a", "b", "c", "d"]}
    assert _findings(tmp_path, {"display": display}, labels) == []


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (
            np.array([0, 1, 4, 3, -1]),
            "label -1, 4 is for no class: there are 4 classes, numbered from 0",
        ),
        (
            np.arange(5) + 10,
            "label 10, 11, 12, 13, 14 is for no class: there are 4 classes, numbered from 0",
        ),
        (
            np.array(["a", "b", "c", "e", "a"]),
            "label 'e' is for no class: display.classes has no such class",
        ),
        (np.zeros(5), "labels of classes are whole numbers or names, not float64"),
        (np.zeros(6, int), "labels have the shape [6]; for 5 samples, one each, it is [5]"),
        (np.zeros((5, 1), int), "labels have the shape [5, 1]; for 5 samples, one each, it is [5]"),
        (np.array(1), "labels have the shape []; for 5 samples, one each, it is [5]"),
    ],
)
def test_labels_that_are_for_no_class_or_no_sample_are_found(
    tmp_path: Path, labels: np.ndarray[Any, Any], message: str
) -> None:
    display = {**CLASSES, "classes": ["a", "b", "c", "d"]}
    assert _findings(tmp_path, {"display": display}, labels) == [
        ("ORT513", "/samples/0/labels", message)
    ]


def test_labels_of_what_is_no_class_may_be_anything(tmp_path: Path) -> None:
    assert (
        _findings(tmp_path, {"display": {"output": "y", "as": "tensor"}}, np.linspace(0, 99, 5))
        == []
    )


def test_a_display_names_as_many_classes_as_the_model_has(tmp_path: Path) -> None:
    display = {**CLASSES, "classes": ["a", "b"]}
    assert _findings(tmp_path, {"display": display}) == [
        ("ORT512", "/samples/0/display/classes", "display names 2 classes; output 'y' has 4")
    ]


def test_a_display_of_an_unknown_output_is_found(tmp_path: Path) -> None:
    assert _findings(tmp_path, {"display": {"output": "z", "as": "class"}}) == [
        ("ORT511", "/samples/0/display/output", "output 'z' is displayed; there is 'y'")
    ]


def test_tolerances_for_unknown_outputs_are_found(tmp_path: Path) -> None:
    changes = {
        "tolerances": {"y": {"absolute": 1}, "z": {"absolute": 1}},
        "variants": {"cpu": {"tolerances": {"w": {"relative": 1}}}},
    }
    assert _findings(tmp_path, changes) == [
        ("ORT511", "/samples/0/tolerances/z", "a tolerance is for the output 'z'; there is 'y'"),
        (
            "ORT511",
            "/samples/0/variants/cpu/tolerances/w",
            "a tolerance is for the output 'w'; there is 'y'",
        ),
    ]


def test_labels_whose_data_is_damaged_do_not_end_the_checks(tmp_path: Path) -> None:
    tree = sample_tree()
    data = npz(labels=np.zeros(5, np.int64))
    place = data.index(bytes(40))
    tree["samples/labels.npz"] = data[:place] + b"\1" + data[place + 1 :]
    tree["samples/samples.json"]["samples"][0]["display"] = CLASSES
    assert findings_of(write_tree(tmp_path / "p", tree), select=["ORT513"]) == {}
