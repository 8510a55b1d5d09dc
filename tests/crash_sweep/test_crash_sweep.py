"""A sample of the sweep, so that it is known to work; ``make crash-sweep`` runs all of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.crash_sweep.command_scenarios import COMMAND_SCENARIOS
from tests.crash_sweep.scenario import Scenario
from tests.crash_sweep.scenarios import SCENARIOS
from tests.crash_sweep.sweep import Stop, expect, problem_of

_SHORT = [scenario for scenario in SCENARIOS if scenario not in COMMAND_SCENARIOS]
#: Of the commands between machines, which take a second each time that they are stopped.
_COMMANDS = ["ortpkg install, more variants", "ortpkg upgrade", "ortpkg push", "ortpkg lock"]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes are made by fork")


@pytest.mark.sampled(4)
@pytest.mark.requirement("K18")
@pytest.mark.parametrize("scenario", _SHORT, ids=lambda scenario: scenario.name)
def test_a_command_that_is_stopped_leaves_the_old_or_the_new_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scenario: Scenario
) -> None:
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(tmp_path / "cache"))
    expected = expect(scenario, tmp_path / "sweep")

    assert expected.count > 1
    assert problem_of(scenario, expected, expected.count // 3, Stop.KILL) == ""
    assert problem_of(scenario, expected, expected.count * 4 // 5, Stop.FULL_DISK) == ""


@pytest.mark.requirement("K18")
@pytest.mark.parametrize("name", _COMMANDS)
def test_a_command_between_machines_that_is_stopped_is_done_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(tmp_path / "cache"))
    (scenario,) = [each for each in COMMAND_SCENARIOS if each.name == name]
    expected = expect(scenario, tmp_path / "sweep")

    assert problem_of(scenario, expected, expected.count // 2, Stop.KILL) == ""
    assert problem_of(scenario, expected, expected.count * 4 // 5, Stop.FULL_DISK) == ""
