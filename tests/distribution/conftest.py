"""A store, and a layout with the sample package, for tests of what moves between them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ortpkg.distribution.publishing import publish
from ortpkg.registry.oci_layout import OciLayout
from ortpkg.store.package_store import PackageStore

SAMPLES = Path(__file__).resolve().parents[2] / "sample_packages"


@pytest.fixture(scope="session")
def published_digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An OCI layout that has the sample package as 2 and latest; not to be changed."""
    layout = tmp_path_factory.mktemp("published") / "layout"
    with pytest.MonkeyPatch.context() as patch:
        locks = tmp_path_factory.mktemp("locks")
        patch.setattr("ortpkg.storage.package_lock.locks_directory", lambda: locks)
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
    monkeypatch.setattr("ortpkg.storage.package_lock.locks_directory", lambda: tmp_path / "locks")
    return PackageStore()
