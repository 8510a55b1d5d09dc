"""Where the lock of a package lies, and what happens where that cannot be written."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from ortpkg.errors import AuthoringError, PackageBusyError
from ortpkg.package.package_lock import lock_package, locks_directory


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
        with pytest.raises(PackageBusyError), lock_package(tmp_path / "p", timeout_s=0.1, on_wait=lambda _: None):
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
            AuthoringError, match=r"cannot lock .*home.*, nor .*temporary.*; name another one in ORTPKG_CACHE_DIR"
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

    with pytest.raises(AuthoringError, match="it belongs to somebody else"), lock_package(tmp_path / "p"):
        pass
