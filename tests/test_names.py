"""Suggestions for paths and names of execution providers that do not exist."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ortpkg.foundations.ep_names import LLVM_EP, suggest_ep_name
from ortpkg.foundations.names import did_you_mean_path


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "digits.ortpackage" / "models").mkdir(parents=True)
    (tmp_path / "digits.ortpackage" / "models" / "model.onnx").touch()
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("digits", "digits.ortpackage"),
        ("digts.ortpakage", "digits.ortpackage"),
        ("digts.ortpackage/models/model.onnx", "digits.ortpackage/models/model.onnx"),
        ("digts.ortpackage/other", "digits.ortpackage"),
        ("./digits.ortpackage/models/modle.onnx", "./digits.ortpackage/models/model.onnx"),
        ("digits.ortpackage/model/", "digits.ortpackage/models"),
    ],
)
def test_a_path_is_corrected_at_its_first_missing_part(typed: str, meant: str) -> None:
    assert did_you_mean_path(typed) == f" (did you mean '{meant}'?)"


@pytest.mark.parametrize(
    "typed",
    ["", "/", "..", "zzz", "zzz/x\0", "nope.ortpackage", "digits.ortpackage/models/nope.onnx"],
)
def test_a_path_like_no_other_has_no_suggestion(typed: str) -> None:
    assert did_you_mean_path(typed) == ""


def test_a_folder_that_cannot_be_listed_has_no_suggestion(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: str) -> None:
        raise PermissionError(folder)

    monkeypatch.setattr(os, "scandir", refuse)
    assert did_you_mean_path("digits") == ""


def test_swapped_letters_of_a_short_name_of_an_execution_provider() -> None:
    assert suggest_ep_name("llmv") == LLVM_EP
    assert suggest_ep_name("npu") is None
