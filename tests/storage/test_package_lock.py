"""Where the lock of a package lies, and what happens where that cannot be written."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from pathlib import Path

import pytest

from ortpkg.foundations.errors import AuthoringError, PackageBusyError
from ortpkg.foundations.storage.package_lock import _lock_name, lock_package, locks_directory


@pytest.fixture(autouse=True)
def locks_where_users_have_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ortpkg.foundations.storage.package_lock.locks_directory", locks_directory)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory for temporary files, in a place of the test."""
    directory = tmp_path / "temporary"
    directory.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    return directory


def test_locks_move_with_the_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(tmp_path / "caches"))

    with lock_package(tmp_path / "p"):
        assert locks_directory() == tmp_path / "caches" / "locks"
        assert list(locks_directory().glob("*.lock"))


@pytest.mark.parametrize("obstacle", ["file", "missing and not to be made"])
def test_without_a_directory_for_caches_packages_are_locked_among_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, temporary: Path, obstacle: str
) -> None:
    home = tmp_path / "home"
    home.touch()
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(home if obstacle == "file" else home / "none"))

    with lock_package(tmp_path / "p"):
        assert list(temporary.glob("ortpkg-locks-*/*.lock"))
        with (
            pytest.raises(PackageBusyError),
            lock_package(tmp_path / "p", timeout_s=0.1, on_wait=lambda _: None),
        ):
            pass
    with lock_package(tmp_path / "p"):
        pass


def test_where_nothing_can_be_written_both_places_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, temporary: Path
) -> None:
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(tmp_path / "home"))
    (tmp_path / "home").touch()
    temporary.rmdir()
    temporary.touch()

    with (
        pytest.raises(
            AuthoringError,
            match=r"cannot lock .*home.*, nor .*temporary.*; name another one in ORTPKG_CACHE_DIR",
        ),
        lock_package(tmp_path / "p"),
    ):
        pass


def test_a_directory_of_somebody_else_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, temporary: Path
) -> None:
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(tmp_path / "home"))
    (tmp_path / "home").touch()
    monkeypatch.setattr("os.getuid", lambda: 4321, raising=False)
    (temporary / "ortpkg-locks-4321").mkdir()

    with (
        pytest.raises(AuthoringError, match="it belongs to somebody else"),
        lock_package(tmp_path / "p"),
    ):
        pass


@pytest.mark.skipif(os.name == "nt", reason="Windows keeps files that are open")
def test_locks_that_nobody_wants_any_more_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(tmp_path))
    for name in ("gone", "held", "wanted", "young"):
        with lock_package(tmp_path / name):
            pass
    locks = {
        name: tmp_path / "locks" / _lock_name(tmp_path / name)
        for name in ("gone", "held", "wanted", "young")
    }
    locks["gone"].with_suffix(".json").write_text("{}", "utf-8")  # of a process that was killed
    with lock_package(tmp_path / "held"):
        for name in ("gone", "held", "wanted"):
            os.utime(locks[name], (time.time() - 7200, time.time() - 7200))

        with lock_package(tmp_path / "wanted"):
            pass

        assert {name for name, path in locks.items() if path.exists()} == {
            "held",
            "wanted",
            "young",
        }
        assert not locks["gone"].with_suffix(".json").exists()
        with (
            pytest.raises(PackageBusyError),
            lock_package(tmp_path / "held", timeout_s=0.1, on_wait=lambda _: None),
        ):
            pass


def test_many_who_lock_while_locks_are_removed_exclude_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(tmp_path))
    # each release removes what is not held
    monkeypatch.setattr("ortpkg.foundations.storage.package_lock._UNUSED_AFTER_S", 0.0)
    inside: list[int] = []
    most: list[int] = []

    def work() -> None:
        for _ in range(20):
            with lock_package(tmp_path / "p", on_wait=lambda _: None):
                inside.append(1)
                most.append(len(inside))
                time.sleep(0.001)
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert most == [1] * 80
