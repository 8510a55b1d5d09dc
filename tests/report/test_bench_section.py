"""Measurements of a report: fresh ones, recorded ones, what no longer counts, what may not run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ortpkg import ModelPackage
from ortpkg.machine.hardware import EpDevice
from ortpkg.package.reader import open_package
from ortpkg.report.sections.bench_section import BenchSection, bench_section
from ortpkg.report.sections.section import Status
from ortpkg.runtime.providers.machine_offer import this_machine
from ortpkg.selection.matching.measurements import (
    Measurement,
    QuarantineCause,
    QuarantineEntry,
    SelectionRecords,
    device_key,
)
from ortpkg.selection.measuring.accuracy import Distance
from ortpkg.selection.measuring.bench_candidate import BenchCandidate
from ortpkg.selection.measuring.measured_candidates import CandidateResult, Outcome
from ortpkg.selection.measuring.record_store import (
    RecordedState,
    load_recorded_state,
    write_quarantine,
    write_records,
)
from ortpkg.selection.measuring.run_statistics import run_times
from tests.report.conftest import DIGITS
from tests.report.pages import Page, page_of
from tests.report.subjects import subject_of

CPU = "CPUExecutionProvider"


def test_where_nothing_was_measured_the_page_says_how(digits_page: Page) -> None:
    assert "Nothing was measured on this machine" in digits_page.texts_in("span")
    assert "ortpkg bench" in digits_page.texts_in("code")


@pytest.mark.usefixtures("_own_records")
def test_what_was_recorded_here_is_shown_with_its_versions() -> None:
    info, offer = open_package(DIGITS), this_machine()
    device = next(each for each in offer.ep_devices if each.backend == "embedded")
    slow, fast = _measurement("cpu-fp32", 0.25, 0.5), _measurement("cpu-int8", 0.125, 0.25)
    assert not write_records(info, offer._replace(ep_devices=(device,)), [slow, fast])
    page = page_of(ModelPackage(DIGITS).report())
    assert "Fastest cpu-int8 (embedded), 125.0 ms; 2 measured" in page.texts_in("span")
    state = load_recorded_state(info, offer)
    assert state is not None
    words = page.words
    assert state.recorded_at[:16].replace("T", " ") in words
    assert f"Version of ortpkg {state.facts['version of ortpkg']}" in words
    assert "125.0 ms 100.0 ms to 150.0 ms 250.0 ms 8 1.5 s 200.0 ms 2.0 MB 0.001" in words
    assert words.index("125.0 ms 100.0 ms") < words.index("250.0 ms 200.0 ms")


@pytest.mark.usefixtures("_own_records")
def test_what_is_in_quarantine_is_shown_with_its_cause() -> None:
    info, offer = open_package(DIGITS), this_machine()
    device = next(each for each in offer.ep_devices if each.backend == "embedded")
    assert not write_records(info, offer, [_measurement("cpu-fp32", 0.25, 0.5)])
    entry = QuarantineEntry(
        component_name="classifier",
        variant_name="cpu-int8",
        ep_name=CPU,
        backend="embedded",
        device=device_key(device),
        ep_version=device.ep_version,
        driver_version="",
        cause=QuarantineCause.WRONG_OUTPUT,
        detail="off by <b>7</b>",
        recorded_at="2026-03-04T05:06:07+00:00",
    )
    assert not write_quarantine(info, [entry])
    page = page_of(ModelPackage(DIGITS).report())
    assert "1 measured; 1 in quarantine" in page.words
    assert "wrong output" in page.texts_in("span")
    assert "off by <b>7</b> 2026-03-04 05:06" in page.words


def test_results_of_this_report_come_before_records() -> None:
    section = _section(results=(_result("cpu-fp32", 2_000_000), _failed("cpu-int8")))
    assert section.made == "Measured for this report."
    assert [(row.variant, row.median, row.verdict) for row in section.rows] == [
        ("cpu-fp32", "2.0 ms", "accurate"),
        ("cpu-int8", "", "crashed: it ended by signal 11"),
    ]
    assert section.status is Status.BAD
    assert section.headline == "Fastest cpu-fp32 (embedded), 2.0 ms; 1 of 2 measured"


def test_records_that_no_longer_count_say_why() -> None:
    why = "measured on 2026-01-02, and since then: version of numpy was 1, is 2"
    records = SelectionRecords(measurements=(_measurement("a", 1.0, 2.0),), stale_reason=why)
    section = _section(recorded=RecordedState(records=records, recorded_at="2026-01-02T03:04:05"))
    assert section.stale == why
    assert section.status is Status.WARN
    assert section.headline.endswith("; no longer counts")
    assert section.made == "Measured on this machine, the last on 2026-01-02 03:04."


def test_wrong_outputs_are_never_the_fastest() -> None:
    wrong = replace(_measurement("quick", 0.1, 0.1), is_accurate=False)
    records = SelectionRecords(measurements=(wrong, _measurement("right", 1.0, 2.0)))
    section = _section(recorded=RecordedState(records=records))
    assert section.headline.startswith("Fastest right (embedded), 1.0 s")
    assert [row.verdict for row in section.rows] == ["wrong output", "accurate"]
    assert section.status is Status.BAD


def test_more_results_than_a_page_shows_are_counted() -> None:
    one = _measurement("v", 1.0, 2.0)
    records = SelectionRecords(
        measurements=tuple(replace(one, variant_name=f"v{number}") for number in range(5000))
    )
    section = _section(recorded=RecordedState(records=records))
    assert len(section.rows) == 200
    assert section.left_out == (
        "4800 more results are not shown here; ortpkg bench --json has all.",
    )
    assert len(section.picture) < 400_000


@pytest.fixture
def _own_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORTPKG_STATE_DIR", str(tmp_path))


def _section(
    *, results: tuple[CandidateResult, ...] = (), recorded: RecordedState | None = None
) -> BenchSection:
    return bench_section(replace(subject_of(DIGITS), results=results, recorded=recorded))


def _measurement(variant: str, p50_s: float, p95_s: float) -> Measurement:
    device = next(each for each in this_machine().ep_devices if each.backend == "embedded")
    return Measurement(
        component_name="classifier",
        variant_name=variant,
        ep_name=CPU,
        backend="embedded",
        device=device_key(device),
        p50_s=p50_s,
        p95_s=p95_s,
        lowest_s=p50_s * 0.8,
        highest_s=p50_s * 1.2,
        throughput_per_s=1 / p50_s,
        cold_start_s=1.5,
        first_run_s=0.2,
        peak_memory_nbytes=2_000_000,
        max_abs_error=0.001,
        is_accurate=True,
    )


def _result(variant: str, time_ns: int) -> CandidateResult:
    return CandidateResult(
        candidate=_candidate(variant),
        outcome=Outcome.MEASURED,
        times=run_times([[time_ns]]),
        distance=Distance(max_abs_error=0.0, is_within=True),
    )


def _failed(variant: str) -> CandidateResult:
    return CandidateResult(
        candidate=_candidate(variant),
        outcome=Outcome.CRASHED,
        reason="it ended by signal 11",
        is_held_against=True,
    )


def _candidate(variant: str) -> BenchCandidate:
    device = EpDevice(ep_name=CPU, device=None, backend="embedded")
    return BenchCandidate(
        component_name="classifier", variant_name=variant, ep_device=device, model_path=Path("m")
    )
