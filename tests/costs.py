"""What tests cost: ``pytest -p tests.costs`` lists files by processor time and processes.

Durations grow with whatever else the machine does; processor time hardly, and a count of processes
not at all.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import pytest

_MOST_LINES = 40
_PROPERTY = "ortpkg_cost"


@dataclass(slots=True)
class Cost:
    """Processor time of this process and of children that it waited for, and their number."""

    own_s: float = 0.0
    children_s: float = 0.0
    processes: int = 0
    tests: int = 0

    @property
    def total_s(self) -> float:
        return self.own_s + self.children_s


_started = 0


def _count_processes(event: str, _arguments: tuple[Any, ...]) -> None:
    global _started  # noqa: PLW0603  an audit hook has no other place to count in
    if event == "subprocess.Popen":
        _started += 1


def _now() -> Cost:
    times = os.times()
    return Cost(
        own_s=times.user + times.system,
        children_s=times.children_user + times.children_system,
        processes=_started,
    )


class _Meter:
    """Adds to each report what was spent since the report before it."""

    def __init__(self) -> None:
        self._last = _now()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        now, last = _now(), self._last
        self._last = now
        spent = [
            now.own_s - last.own_s,
            now.children_s - last.children_s,
            now.processes - last.processes,
        ]
        report.user_properties = [*report.user_properties, (_PROPERTY, spent)]
        return report


class _Table:
    """Sums up the reports, of all workers."""

    def __init__(self) -> None:
        self._files: dict[str, Cost] = defaultdict(Cost)
        self._tests: dict[str, Cost] = defaultdict(Cost)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        spent = dict(report.user_properties).get(_PROPERTY)
        if not isinstance(spent, list | tuple):
            return
        for cost in (self._files[report.nodeid.partition("::")[0]], self._tests[report.nodeid]):
            cost.own_s += spent[0]
            cost.children_s += spent[1]
            cost.processes += spent[2]
            cost.tests += report.when == "call"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        total = Cost()
        for cost in self._files.values():
            total.own_s += cost.own_s
            total.children_s += cost.children_s
            total.processes += cost.processes
            total.tests += cost.tests
        terminalreporter.section("costs")
        terminalreporter.line("    own s  children s  processes  tests")
        for costs in ({"all": total}, self._files, self._tests):
            dearest = sorted(costs.items(), key=lambda each: -each[1].total_s)
            for name, cost in dearest[:_MOST_LINES]:
                terminalreporter.line(
                    f"{cost.own_s:9.1f} {cost.children_s:11.1f} {cost.processes:10d}"
                    f" {cost.tests:6d}  {name}"
                )
            terminalreporter.line("")


def pytest_configure(config: pytest.Config) -> None:
    sys.addaudithook(_count_processes)
    config.pluginmanager.register(_Meter())
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Table())
