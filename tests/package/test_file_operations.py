"""What is written reaches the disk: the system is asked to, for each file and each folder, before it is relied on."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ortpkg.package.file_operations import FileOperations


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
    "copy_stream": lambda operations, path: operations.copy_stream(io.BytesIO(b"content"), path, nbytes=7, name="n"),
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
