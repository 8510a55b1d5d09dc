"""bench: how the times of runs spread, for those who look at a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from ortpkg.api.bench.benchmark import BenchReport
from ortpkg.cli.bench_text import print_report
from ortpkg.cli.rendering import Output
from ortpkg.machine.hardware import EpDevice
from ortpkg.selection.measuring.bench_candidate import BenchCandidate
from ortpkg.selection.measuring.measured_candidates import CandidateResult, Outcome, Plan
from ortpkg.selection.measuring.run_statistics import run_times
from tests.cli.conftest import Terminal


def _report(*times_ns: int) -> BenchReport:
    candidate = BenchCandidate(
        component_name="c",
        variant_name="v",
        ep_device=EpDevice(ep_name="CPUExecutionProvider", device=None, backend="embedded"),
        model_path=Path("m"),
    )
    crashed = CandidateResult(candidate=candidate, outcome=Outcome.CRASHED, reason="it fell")
    measured = CandidateResult(
        candidate=candidate,
        outcome=Outcome.MEASURED,
        times=run_times([times_ns]) if times_ns else None,
    )
    return BenchReport(
        package_name="p",
        results=(measured, crashed) if times_ns else (crashed,),
        workloads={},
        plan=Plan(),
    )


def test_a_terminal_shows_how_often_each_time_was_met(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    print_report(_report(*[100_000] * 8, *[150_000] * 4, *[219_000] * 8), Output())
    lines = terminal.getvalue().splitlines()
    title = lines.index("Spread: how often each time was met, but for the slowest")
    row = lines[title + 3]
    assert row.startswith("v        cpu/embedded   100 µs  █")
    assert row.endswith("█    ▄     █  219 µs")
    assert not lines[title + 4].startswith("v")  # what crashed has no times


def test_nothing_is_drawn_where_nothing_ran(terminal: Terminal) -> None:
    print_report(_report(), Output())
    assert "Spread" not in terminal.getvalue()


def test_what_is_piped_has_one_table(capsys: pytest.CaptureFixture[str]) -> None:
    print_report(_report(100_000, 200_000), Output())
    out = capsys.readouterr().out
    assert "p50" in out
    assert "Spread" not in out
