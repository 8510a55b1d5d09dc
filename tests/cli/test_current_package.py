"""Commands inside a package's folder need not be told which package."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import DIGITS, RunCommand

pytestmark = pytest.mark.usefixtures("warm_processes")


@pytest.fixture
def digits(few_digits: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(few_digits, tmp_path / "digits.ortpackage"))


@pytest.mark.parametrize(
    "words",
    [
        ["select", "--device", "cpu"],
        ["select", "--explain"],
        ["inspect"],
        ["validate"],
        ["verify"],
        ["run", "--backend", "embedded"],
        ["plan"],
        ["migrate-check"],
        ["cache", "why", "--backend", "embedded"],
        [
            "bench",
            "--backend",
            "embedded",
            "--variant",
            "cpu-fp32",
            "--rounds",
            "1",
            "--repeat",
            "1",
            "--no-record",
        ],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_the_package_around_the_current_folder_is_taken_and_said(
    ortpkg: RunCommand, digits: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.chdir(digits / "models" / "classifier")
    done = ortpkg(*words, "--json") if words[0] != "bench" else ortpkg(*words)
    assert done.code == 0, done.err
    assert f"package: {digits}\n" in done.err


def test_what_is_named_is_taken_and_nothing_is_said(
    ortpkg: RunCommand, digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(digits)
    done = ortpkg("inspect", DIGITS, "--json")
    assert done.json["root"] == str(DIGITS)
    assert done.err == ""
    assert ortpkg("inspect", "-q").err == ""


@pytest.mark.parametrize(
    "words", [["select"], ["run"], ["validate"], ["plan"], ["cache", "why"], ["bench"]]
)
def test_where_there_is_none_the_error_says_so(
    ortpkg: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    (tmp_path / "manifest.json").write_text('{"name": "a web application"}', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    done = ortpkg(*words)
    assert done.code == 2
    assert done.err == (
        f"error: name a package: {str(tmp_path)!r} is not one, nor inside one "
        "(a package is a folder with a manifest.json of its own)\n"
    )


def test_a_command_that_changes_a_package_has_to_be_told_which(
    ortpkg: RunCommand, digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(digits)
    for words in (
        ["dedup"],
        ["slim", "--in-place", "--device", "cpu"],
        ["convert", "--to", "metadata", "--in-place"],
    ):
        done = ortpkg(*words)
        assert (done.code, "Missing argument 'PKG'" in done.err) == (2, True), done.err
