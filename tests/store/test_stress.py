"""A short run of ``make store-stress``."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.store.stress import stress


@pytest.mark.skipif(sys.platform == "win32", reason="processes are made by fork")
def test_many_processes_and_kills_tear_nothing(tmp_path: Path) -> None:
    outcome = stress(tmp_path / "run", seconds=1.5, installers=4, readers=2, collectors=1)

    assert outcome.problems == []
    assert outcome.kills > 0
    assert outcome.counts["install"] > 0
