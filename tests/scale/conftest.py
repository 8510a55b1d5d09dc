"""Servers with clients of others, and Ray, in an environment that ``make scale`` makes."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.scale.served_packages import make_echoes
from tests.scale.serving_processes import Serving, serving

#: All that ``make scale`` installs for them; in another environment nothing here is collected.
LIBRARIES = ("kserve", "prometheus_client", "pyarrow", "ray", "tritonclient")
collect_ignore_glob = [] if all(map(importlib.util.find_spec, LIBRARIES)) else ["test_*.py"]


#: What is shown, in the order in which it is told.
SUBJECTS = (
    "each worker its own variant",
    "nothing lost, nothing twice",
    "serving",
    "new versions without a gap",
    "on a Ray cluster",
    "clients of others",
    "hostile clients",
    "pages and manifests",
)
_WIDTH = 78


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Has the report of each test say what it shows."""
    for item in items:
        if item.get_closest_marker("scale") is None:
            continue
        shows = item.get_closest_marker("shows")
        assert shows is not None, f"{item.nodeid} has no mark that says what it shows"
        (subject,) = shows.args
        assert subject in SUBJECTS, f"{item.nodeid}: {subject}"
        item.user_properties.append(("subject", subject))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Says by subject what was shown, with figures, how often, and how long that took."""
    if not config.getoption("-m"):
        return
    found: dict[str, dict[str, list[Any]]] = {each: {} for each in SUBJECTS}
    for outcome in ("passed", "failed", "skipped", "error"):
        for report in terminalreporter.stats.get(outcome, ()):
            # A report of what could not be collected has none.
            subject = dict(getattr(report, "user_properties", ())).get("subject")
            if subject is not None:
                found[subject].setdefault(_behaviour(report.nodeid), []).append((outcome, report))
    terminalreporter.section("what held")
    for subject, behaviours in found.items():
        if behaviours:
            terminalreporter.write_line(f"\n{subject}")
        for behaviour, told in behaviours.items():
            for line in _rows(behaviour, told):
                terminalreporter.write_line(f"  {line}")


def _behaviour(nodeid: str) -> str:
    name = nodeid.rpartition("::")[2].partition("[")[0]
    return name.removeprefix("test_").replace("_", " ")


def _rows(behaviour: str, told: list[tuple[str, Any]]) -> Iterator[str]:
    counts = Counter(outcome for outcome, _ in told)
    taken_s = sum(getattr(report, "duration", 0.0) for _, report in told)
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    yield f"{behaviour:<{_WIDTH}} {outcomes:<10} {taken_s:6.0f} s"
    figures = (dict(report.user_properties).get("figures") for _, report in told)
    yield from (f"    {each}" for each in figures if each is not None)


@pytest.fixture(scope="session")
def digits() -> Iterator[Serving]:
    """A server of the digits package that stays as long as the tests."""
    with serving("sample_packages/digits.ortpackage") as server:
        yield server


@pytest.fixture(scope="session")
def echoes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server of a model for each datatype."""
    with serving(*map(str, make_echoes(tmp_path_factory.mktemp("echoes")))) as server:
        yield server
