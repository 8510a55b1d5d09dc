"""Hashing many files: right, in order, threaded, ended by a caller's first error."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from pathlib import Path

import pytest

from ortpkg.foundations.storage import hashing
from ortpkg.foundations.storage.hashing import (
    FileDigest,
    HashedFile,
    Sha256Stream,
    hash_bytes,
    hash_file,
    hash_file_with_stamp,
    hash_files,
    hashed_beside,
    total_nbytes,
)


def make_files(folder: Path, count: int, nbytes: int = 1000) -> dict[str, Path]:
    paths = {f"file{index}": folder / f"file{index}" for index in range(count)}
    for index, path in enumerate(paths.values()):
        path.write_bytes(bytes([index]) * (nbytes + index))
    return paths


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """However small the files and however few the cores."""
    monkeypatch.setattr(hashing, "_LEAST_THREADED_NBYTES", 0)
    monkeypatch.setattr(hashing, "usable_cores", lambda: 4)
    monkeypatch.setattr(hashing, "_BUFFER_NBYTES", 64)


@pytest.mark.usefixtures("several_threads")
def test_every_file_is_hashed_whatever_thread_does_it(tmp_path: Path) -> None:
    paths = make_files(tmp_path, 40)
    seen: set[int] = set()

    hashed = hash_files(paths, progress=lambda *_: seen.add(threading.get_ident()))

    digests = {
        name: found.digest.sha256 for name, found in hashed.items() if isinstance(found, HashedFile)
    }
    assert digests == {name: sha256_of(path) for name, path in paths.items()}
    assert list(hashed) == list(paths)
    assert total_nbytes(hashed.values()) == sum(path.stat().st_size for path in paths.values())
    assert threading.get_ident() not in seen


@pytest.mark.usefixtures("several_threads")
def test_progress_is_never_called_by_two_threads_at_once(tmp_path: Path) -> None:
    inside = threading.Lock()

    def progress(name: str, done: int, total: int) -> None:
        assert inside.acquire(blocking=False)
        inside.release()

    hash_files(make_files(tmp_path, 20), progress=progress)


@pytest.mark.usefixtures("several_threads")
def test_what_progress_raises_ends_everything(tmp_path: Path) -> None:
    calls: list[str] = []

    def progress(name: str, done: int, total: int) -> None:
        calls.append(name)
        raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        hash_files(make_files(tmp_path, 100), progress=progress)
    assert len(calls) <= 4  # each thread at its first chunk, and no more


def test_an_unreadable_file_gives_its_error_beside_the_others(tmp_path: Path) -> None:
    paths = make_files(tmp_path, 2) | {"missing": tmp_path / "missing", "folder": tmp_path}

    hashed = hash_files(paths)

    assert isinstance(hashed["missing"], FileNotFoundError)
    assert str(hashed["folder"]) == "not a regular file"
    assert isinstance(hashed["file1"], HashedFile)


@pytest.mark.parametrize("nbytes", [0, 1, 1024 * 1024, 1024 * 1024 + 1])
def test_sizes_around_the_buffer(tmp_path: Path, nbytes: int) -> None:
    path = tmp_path / "f"
    path.write_bytes(os.urandom(nbytes))

    assert hash_file(path) == FileDigest(sha256=sha256_of(path), nbytes=nbytes)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc")
    (tmp_path / "link").symlink_to("f")

    with pytest.raises(OSError, match="a symbolic link"):
        hash_file(tmp_path / "link")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no named pipes in folders")
def test_a_pipe_that_nobody_writes_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(OSError, match="not a regular file"):
        hash_file(tmp_path / "pipe")


def test_a_link_swapped_in_before_the_open_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_bytes(b"abc")
    (tmp_path / "f").write_bytes(b"x")
    real_open = os.open

    def swap(path: Path, flags: int) -> int:
        Path(path).unlink()
        Path(path).symlink_to("secret")
        return real_open(path, flags)

    monkeypatch.setattr(os, "open", swap)

    with pytest.raises(OSError, match="symbolic links"):
        hash_file(tmp_path / "f")


def test_a_file_that_changes_while_it_is_hashed_has_no_stamp(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"abc")
    assert hash_file_with_stamp(path).stamp is not None

    def append(*_: object) -> None:
        with path.open("ab") as stream:
            stream.write(b"d" if path.stat().st_size < 5 else b"")

    assert hash_file_with_stamp(path, progress=append).stamp is None


@pytest.mark.parametrize("nbytes", [10, 8 << 20])
def test_what_is_hashed_beside_is_hashed_in_order_when_the_context_is_left(nbytes: int) -> None:
    content = bytes(range(256)) * (nbytes // 256 + 1)
    chunks = [content[start : start + 300_000] for start in range(0, len(content), 300_000)]
    hashing = Sha256Stream()

    with hashed_beside(hashing.update, nbytes=nbytes) as update:
        for chunk in chunks:
            update(chunk)

    assert hashing.digest() == hash_bytes(content)


def test_an_error_beside_a_hash_leaves_no_thread() -> None:
    hashing, before = Sha256Stream(), threading.active_count()

    def fail() -> None:
        with hashed_beside(hashing.update, nbytes=8 << 20) as update:
            for _ in range(20):
                update(bytes(1000))
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        fail()
    assert (threading.active_count(), hashing.nbytes) == (before, 20_000)
