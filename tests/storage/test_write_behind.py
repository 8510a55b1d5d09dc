"""What is on its way to the disk while more is written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ortpkg.foundations.storage import write_behind
from ortpkg.foundations.storage.file_operations import FileOperations
from ortpkg.foundations.storage.write_behind import WriteBehind


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    found: list[int] = []
    monkeypatch.setattr(os, "fsync", found.append)
    monkeypatch.setattr(write_behind, "_EVERY_NBYTES", 100)
    return found


def test_a_long_file_is_synced_on_the_way_and_a_short_one_in_the_end(
    tmp_path: Path, syncs: list[int]
) -> None:
    for chunks, least in ((1, 1), (20, 2)):
        path = tmp_path / f"file{chunks}"
        path.touch()
        syncs.clear()
        with FileOperations().longer_file(path) as file:
            for _ in range(chunks):
                file.write(bytes(50))
        assert path.stat().st_size == 50 * chunks
        assert len(syncs) >= least
        assert (len(syncs) == 1) == (chunks == 1)


def test_what_a_sync_failed_with_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(5, "the disk failed")

    monkeypatch.setattr(os, "fsync", fail)
    monkeypatch.setattr(write_behind, "_EVERY_NBYTES", 1)
    with WriteBehind(0) as behind:
        behind.wrote(1)
        with pytest.raises(OSError, match="the disk failed"):
            behind.finish()
        behind.finish()
