"""A sample of the sweep, so that it is known to work; ``make crash-sweep`` runs all of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.crash_sweep.scenario import Scenario
from tests.crash_sweep.scenarios import SCENARIOS
from tests.crash_sweep.sweep import Stop, expect, problem_of

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes are made by fork")


@pytest.mark.requirement("K18")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_command_that_is_stopped_leaves_the_old_or_the_new_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scenario: Scenario
) -> None:
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(tmp_path / "cache"))
    expected = expect(scenario, tmp_path / "sweep")

    assert expected.count > 1
    for index in sorted({expected.count // 3, expected.count * 4 // 5}):
        for stop in Stop:
            assert problem_of(scenario, expected, index, stop) == ""
