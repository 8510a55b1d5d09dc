"""Facts kept between processes: exact keys, one step, never an error."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from ortpkg.foundations.host.directories import cache_directory
from ortpkg.foundations.storage.fact_cache import read_fact, write_fact


@pytest.fixture(autouse=True)
def directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_fact_is_read_back_for_the_same_key_only() -> None:
    write_fact("kind", {"driver": "1", "version": ["a", 2]}, {"answer": 42})

    assert read_fact("kind", {"version": ["a", 2], "driver": "1"}) == {"answer": 42}
    assert read_fact("kind", {"driver": "2", "version": ["a", 2]}) is None
    assert read_fact("other", {"driver": "1", "version": ["a", 2]}) is None


def test_a_written_fact_leaves_no_temporary_file(directory: Path) -> None:
    write_fact("kind", {"a": 1}, "old")
    write_fact("kind", {"a": 1}, "new")

    assert [path.suffix for path in directory.rglob("*") if path.is_file()] == [".json"]
    assert read_fact("kind", {"a": 1}) == "new"


def test_what_killed_processes_left_is_cleared_and_what_others_write_now_is_not(
    directory: Path,
) -> None:
    write_fact("kind", {"a": 1}, "value")
    (fact,) = directory.rglob("*.json")
    left, written_now = fact.with_name(f".{fact.name}.left"), fact.with_name(f".{fact.name}.now")
    for temporary in (left, written_now):
        temporary.write_text("{", encoding="utf-8")
    long_ago = time.time() - 3600
    for path in (left, fact):
        os.utime(path, (long_ago, long_ago))

    write_fact("other", {"a": 1}, "value")

    assert not left.exists()
    assert written_now.exists()
    assert read_fact("kind", {"a": 1}) == "value"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1]",
        "null",
        "\x00",
        '{"schema_version": 1}',
        '{"schema_version": 99}',
        "[" * 100000,
    ],
)
def test_a_damaged_file_is_as_none(directory: Path, text: str) -> None:
    write_fact("kind", {"a": 1}, "value")
    (path,) = (found for found in directory.rglob("*.json"))
    path.write_text(text, encoding="utf-8")

    assert read_fact("kind", {"a": 1}) is None


def test_a_file_with_another_key_under_the_same_name_is_not_believed(directory: Path) -> None:
    write_fact("kind", {"a": 1}, "value")
    (path,) = (found for found in directory.rglob("*.json"))
    path.write_text(json.dumps({**json.loads(path.read_text()), "key": {"a": 2}}), encoding="utf-8")

    assert read_fact("kind", {"a": 1}) is None


def test_a_directory_that_cannot_be_written_is_no_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(tmp_path / "file"))

    write_fact("kind", {"a": 1}, "value")

    assert read_fact("kind", {"a": 1}) is None


def test_without_the_variable_the_cache_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ORTPKG_CACHE_DIR")

    assert cache_directory().name.lower() in {"ortpkg", "cache"}
    assert cache_directory().is_absolute()
