"""Files that are replaced in one step."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import BinaryIO

import pytest

from ortpkg.foundations.errors import ModelFileError
from ortpkg.foundations.storage.file_replacement import (
    remove_leftovers,
    replace_file,
    write_model_file,
)


def _fail(file: BinaryIO) -> None:
    file.write(b"half")
    raise RuntimeError("stop")


@pytest.mark.parametrize("is_durable", [True, False])
def test_only_what_is_to_last_is_synchronized(
    is_durable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synchronized: list[int] = []
    monkeypatch.setattr(os, "fsync", synchronized.append)
    replace_file(tmp_path / "f", lambda file: file.write(b"new"), is_durable=is_durable)
    assert (tmp_path / "f").read_bytes() == b"new"
    assert bool(synchronized) == is_durable


def test_a_failure_leaves_what_was_there_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"old")
    with pytest.raises(RuntimeError, match="stop"):
        replace_file(tmp_path / "f", _fail)
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("f", b"old")]


def test_what_a_killed_process_left_goes_once_nobody_can_be_writing_it(
    tmp_path: Path,
) -> None:
    old, new = tmp_path / ".f.0123456789ab", tmp_path / ".f.ba9876543210"
    mine = [tmp_path / name for name in ("f", ".hidden", ".f.0123456789abc", ".f.lock")]
    for path in (old, new, *mine):
        path.write_bytes(b"half")
        if path != new:
            os.utime(path, (0, 0))

    remove_leftovers(tmp_path)
    remove_leftovers(tmp_path / "nowhere")

    assert sorted(tmp_path.iterdir()) == sorted([new, *mine])


def test_what_is_there_stays_where_it_may_not_be_replaced(tmp_path: Path) -> None:
    def race(file: BinaryIO) -> None:
        file.write(b"new")
        (tmp_path / "f").write_bytes(b"theirs")

    for write in (race, _fail):
        with pytest.raises(FileExistsError):
            replace_file(tmp_path / "f", write, replaces=False)
    with pytest.raises(ModelFileError, match="exists already, and is never written over"):
        write_model_file(tmp_path / "f", _fail, replaces=False)
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("f", b"theirs")]


@pytest.mark.skipif(sys.platform == "win32", reason="permissions of POSIX")
def test_the_mode_is_the_stated_one_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        replace_file(tmp_path / "f", lambda file: file.write(b""), mode=0o644)
        replace_file(tmp_path / "g", lambda file: file.write(b""))
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in "fg"]
    assert modes == [0o644, 0o600]


def test_a_name_as_long_as_names_can_be(tmp_path: Path) -> None:
    path = tmp_path / ("é" * 127)  # 254 bytes
    replace_file(path, lambda file: file.write(b"new"))
    assert path.read_bytes() == b"new"
