"""An empty store."""

from __future__ import annotations

from pathlib import Path

import pytest

from ortpkg.distribution.store.package_store import PackageStore


@pytest.fixture
def store(tmp_path: Path) -> PackageStore:
    return PackageStore(tmp_path / "store")
