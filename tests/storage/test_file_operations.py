"""What is written reaches the disk: each file and folder is synced before it counts."""

from __future__ import annotations

import ctypes
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from ortpkg.foundations.errors import AuthoringError
from ortpkg.foundations.storage.file_operations import FileOperations, exchange_names


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """(inode, size) of what ``os.fsync`` was called for, in order."""
    found: list[tuple[int, int]] = []

    def note(descriptor: int) -> None:
        status = os.fstat(descriptor)
        found.append((status.st_ino, status.st_size))

    monkeypatch.setattr(os, "fsync", note)
    return found


def _copied(operations: FileOperations, path: Path) -> None:
    source = path.with_name("source")
    source.write_bytes(b"content")
    operations.copy_file(source, path, name="source")


WAYS: dict[str, Callable[[FileOperations, Path], object]] = {
    "write_file": lambda operations, path: operations.write_file(path, b"content"),
    "copy_file": _copied,
    "copy_stream": lambda operations, path: operations.copy_stream(
        io.BytesIO(b"content"), path, nbytes=7, name="n"
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_new_file_is_synced_with_all_that_was_written(
    tmp_path: Path, synced: list[tuple[int, int]], way: str
) -> None:
    path = tmp_path / "file"
    WAYS[way](FileOperations(), path)
    assert path.read_bytes() == b"content"
    assert synced == [(path.stat().st_ino, 7)]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such call")
def test_a_folder_is_synced(tmp_path: Path, synced: list[tuple[int, int]]) -> None:
    FileOperations().fsync_directory(tmp_path)
    assert [inode for inode, _ in synced] == [tmp_path.stat().st_ino]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such call")
@pytest.mark.parametrize("is_folder", [False, True])
def test_two_names_are_exchanged_in_one_step(tmp_path: Path, is_folder: bool) -> None:
    for name in ("a", "b"):
        place = tmp_path / name / "file" if is_folder else tmp_path / name
        place.parent.mkdir(exist_ok=True)
        place.write_text(name)

    FileOperations().exchange(tmp_path / "a", tmp_path / "b")

    ends = [tmp_path / name / "file" if is_folder else tmp_path / name for name in ("a", "b")]
    assert [end.read_text() for end in ends] == ["b", "a"]


def test_names_that_cannot_be_exchanged_are_left_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")

    assert not exchange_names(tmp_path / "a", tmp_path / "none")
    with pytest.raises(
        AuthoringError,
        match="none' cannot be exchanged in one step on this system: remove it first",
    ):
        FileOperations().exchange(tmp_path / "a", tmp_path / "none")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize(
    ("library", "is_done"),
    [
        (
            SimpleNamespace(
                renamex_np=lambda first, second, how: (
                    0 if (first, second, how) == (b"a", b"b", 2) else -1
                )
            ),
            True,
        ),
        (SimpleNamespace(renamex_np=lambda *_arguments: -1), False),
        (
            SimpleNamespace(
                renameat2=lambda *arguments: 0 if arguments == (-100, b"a", -100, b"b", 2) else -1
            ),
            True,
        ),
        (SimpleNamespace(), False),
    ],
    ids=["macOS", "macOS, another disk", "Linux", "another system"],
)
def test_each_system_is_asked_by_its_own_call(
    library: SimpleNamespace, is_done: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda *_arguments, **_options: library)

    assert exchange_names(Path("a"), Path("b")) is is_done
