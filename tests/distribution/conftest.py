"""A store, and a layout with the sample package, for tests of what moves between them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import ortpkg
from ortpkg.distribution.publishing import publish
from ortpkg.distribution.registry.http_retries import Clock
from ortpkg.distribution.registry.oci_layout import OciLayout
from ortpkg.distribution.store.package_store import PackageStore
from tests.registry.file_server import FileServer, serving

PACKED_PATH = "/models/digits.ortpkg"
SAMPLES = Path(__file__).resolve().parents[2] / "sample_packages"


@pytest.fixture(scope="session")
def published_digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An OCI layout that has the sample package as 2 and latest; not to be changed."""
    layout = tmp_path_factory.mktemp("published") / "layout"
    with pytest.MonkeyPatch.context() as patch:
        locks = tmp_path_factory.mktemp("locks")
        patch.setattr("ortpkg.foundations.storage.package_lock.locks_directory", lambda: locks)
        publish(SAMPLES / "digits.ortpackage", OciLayout(layout), tags=["2", "latest"])
    return layout


@pytest.fixture
def layout(published_digits: Path, tmp_path: Path) -> OciLayout:
    """A copy of it, to be spoiled."""
    return OciLayout(Path(shutil.copytree(published_digits, tmp_path / "layout")))


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PackageStore:
    """An empty store, the user's."""
    monkeypatch.setenv("ORTPKG_STORE", str(tmp_path / "store"))
    monkeypatch.setattr(
        "ortpkg.foundations.storage.package_lock.locks_directory", lambda: tmp_path / "locks"
    )
    return PackageStore()


@pytest.fixture(scope="session")
def packed_digits(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The sample package as one file."""
    folder = tmp_path_factory.mktemp("packed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "ortpkg.foundations.storage.package_lock.locks_directory", lambda: folder / "locks"
        )
        ortpkg.pack(SAMPLES / "digits.ortpackage", folder / "digits.ortpkg")
    return (folder / "digits.ortpkg").read_bytes()


@pytest.fixture
def server(packed_digits: bytes, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    """A server that has it; who asks it again does not wait."""
    clock = Clock(sleep=lambda _: None)
    monkeypatch.setattr("ortpkg.distribution.registry.http_transport.Clock", lambda: clock)
    with serving(FileServer(files={PACKED_PATH: packed_digits})) as running:
        yield running
