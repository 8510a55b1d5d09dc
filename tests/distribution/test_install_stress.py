"""A short run of the installers of ``make store-stress``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.distribution.install_stress import shop, stress
from tests.store.store_packages import AT_ONCE


def test_processes_that_install_at_once_lose_nothing_while_gc_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "ortpkg.foundations.storage.package_lock.locks_directory", lambda: tmp_path / "locks"
    )
    with shop(tmp_path, versions=["1"]) as registry:
        outcome = stress(
            tmp_path,
            registry,
            installers=3,
            readers=0,
            collectors=1,
            rules=AT_ONCE,
            versions=["1"],
        )

    assert outcome.problems == []
    assert outcome.installed == 3 * 6
