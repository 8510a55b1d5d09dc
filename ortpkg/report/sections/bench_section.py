"""Measurements of the package on this machine, their conditions, and what is quarantined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ortpkg.foundations.drawing.svg import shortened
from ortpkg.foundations.ep_names import short_ep_names
from ortpkg.foundations.quantities import duration_text, nbytes_text
from ortpkg.report.report_subject import ReportSubject
from ortpkg.report.sections.section import MOST_ROWS, Section, Status, left_out
from ortpkg.selection.matching.measurements import Measurement, QuarantineEntry, SelectionRecords
from ortpkg.selection.measuring.measured_candidates import CandidateResult
from ortpkg.selection.measuring.results_picture import results_figure
from ortpkg.selection.measuring.shown_results import ShownResult, recorded_result, shown_result

_MOST_FACTS = 40
_LONGEST_TEXT, _LONGEST_REASON = 120, 300


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRow:
    """Result of one variant on an EP device, in words; "" for unknown values.

    Attributes:
        component, variant, runner: Names, and what ran it.
        median, rounds, p95: Time of one run; ``rounds`` are the least and greatest median of a
            round.
        rate: Runs per second.
        cold_start, first_run: Time from nothing to a session, and of its first run.
        memory, error, cosine: Peak memory, and distance from the expected outputs.
        verdict: Words if outputs are within the tolerance, or why it was not measured.
        status: Rating of the verdict.
    """

    component: str
    variant: str
    runner: str
    median: str
    rounds: str
    p95: str
    rate: str
    cold_start: str
    first_run: str
    memory: str
    error: str
    cosine: str
    verdict: str
    status: Status


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineRow:
    """Variant that must not run on an EP device, with the reason."""

    variant: str
    runner: str
    versions: str
    cause: str
    detail: str
    recorded_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchSection(Section):
    """Measurements, fastest first.

    Attributes:
        made: Sentence with their time and purpose; "" without measurements.
        stale: Reason why they no longer count, or "".
        picture: Figure, or "" without measurements.
        rows: Rows in the order of the picture.
        quarantined: Variants that must not run here.
        facts: Name and value of facts about the machine and versions of the measurement.
        left_out: Sentences on what is not shown.
    """

    made: str
    stale: str
    picture: str
    rows: tuple[BenchRow, ...]
    quarantined: tuple[QuarantineRow, ...]
    facts: tuple[tuple[str, str], ...]
    left_out: tuple[str, ...]


def bench_section(subject: ReportSubject) -> BenchSection:
    """Return the results of this report, or else those recorded on this machine."""
    state = subject.recorded
    records = SelectionRecords() if state is None else state.records
    recorded_at = "" if state is None else _day_and_time(state.recorded_at)
    if subject.results:
        pairs = [(shown_result(item), _fresh_extras(item)) for item in subject.results]
        made, stale = "Measured for this report.", ""
    else:
        ordered = sorted(records.measurements, key=lambda item: item.p50_s)
        pairs = [(recorded_result(item), _recorded_extras(item)) for item in ordered]
        made = f"Measured on this machine, the last on {recorded_at}." if pairs else ""
        stale = records.problem or records.stale_reason
    # The sort is stable: within a component the order stays.
    component_order = {item.name: number for number, item in enumerate(subject.info.components)}
    pairs.sort(key=lambda pair: component_order.get(pair[0].component_name, len(component_order)))
    results = [result for result, _ in pairs[:MOST_ROWS]]
    facts = {} if state is None or not pairs else state.facts
    return BenchSection(
        headline=_headline(results, len(pairs), records.quarantined, stale),
        status=_status(results, records.quarantined, stale),
        made=made,
        stale=shortened(stale, 1000),
        picture=results_figure(results, "Time, error and memory", name="bench") if results else "",
        rows=tuple(_row(result, extras) for result, extras in pairs[:MOST_ROWS]),
        quarantined=tuple(map(_quarantine_row, records.quarantined[:MOST_ROWS])),
        facts=tuple(_facts(facts)),
        left_out=tuple(
            item
            for item in (
                left_out(len(pairs) - MOST_ROWS, "results", "ortpkg bench --json"),
                left_out(len(records.quarantined) - MOST_ROWS, "entries", "ortpkg quarantine list"),
            )
            if item
        ),
    )


def _headline(
    results: Sequence[ShownResult],
    count: int,
    quarantined: Sequence[QuarantineEntry],
    stale: str,
) -> str:
    sentences = [f"{len(quarantined)} in quarantine"] if quarantined else []
    timed = [
        (result.p50_s, result)
        for result in results
        if result.p50_s is not None and not result.is_wrong
    ]
    if not timed:
        return "; ".join((f"{count} candidates, none ran well" if count else _NOTHING, *sentences))
    first = timed[0][1].component_name
    p50_s, best = min(
        (pair for pair in timed if pair[1].component_name == first), key=lambda pair: pair[0]
    )
    fastest = f"{shortened(best.variant_name, _LONGEST_TEXT)} ({best.backend})"
    if any(result.component_name != first for _, result in timed):
        fastest = f"{shortened(first, _LONGEST_TEXT)}: {fastest}"
    failed = sum(result.p50_s is None for result in results)
    measured = f"{count - failed} of {count} measured" if failed else f"{count} measured"
    sentences = [f"Fastest {fastest}, {duration_text(p50_s)}", measured, *sentences]
    return "; ".join([*sentences, "no longer counts"] if stale else sentences)


_NOTHING = "Nothing was measured on this machine"


def _status(
    results: Sequence[ShownResult], quarantined: Sequence[QuarantineEntry], stale: str
) -> Status:
    if any(result.is_wrong or result.is_held_against for result in results):
        return Status.BAD
    if quarantined or stale:
        return Status.WARN
    return Status.GOOD if results else Status.PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class _Extras:
    """Values that the table shows in addition to the picture."""

    rate_per_s: float | None
    cold_start_s: float
    first_run_s: float
    cosine: float | None


def _fresh_extras(result: CandidateResult) -> _Extras:
    return _Extras(
        rate_per_s=None if result.times is None else result.times.throughput_per_s,
        cold_start_s=result.cold_start_s,
        first_run_s=result.first_run_s,
        cosine=None if result.distance is None else result.distance.cosine,
    )


def _recorded_extras(measurement: Measurement) -> _Extras:
    return _Extras(
        rate_per_s=measurement.throughput_per_s,
        cold_start_s=measurement.cold_start_s,
        first_run_s=measurement.first_run_s,
        cosine=measurement.cosine,
    )


def _row(result: ShownResult, extras: _Extras) -> BenchRow:
    memory = result.peak_memory_nbytes
    rounds = ""
    if result.lowest_s is not None and result.highest_s is not None:
        rounds = f"{duration_text(result.lowest_s)} to {duration_text(result.highest_s)}"
    verdict, status = _verdict(result)
    return BenchRow(
        component=result.component_name,
        variant=result.variant_name,
        runner=f"{short_ep_names(result.ep_name)}, {result.backend}",
        median=_duration(result.p50_s),
        rounds=rounds,
        p95=_duration(result.p95_s),
        rate="" if extras.rate_per_s is None else f"{extras.rate_per_s:.4g}",
        cold_start=_duration(extras.cold_start_s or None),
        first_run=_duration(extras.first_run_s or None),
        memory="" if memory is None else nbytes_text(memory),
        error="" if result.max_abs_error is None else f"{result.max_abs_error:.2g}",
        cosine="" if extras.cosine is None else f"{extras.cosine:.6f}",
        verdict=verdict,
        status=status,
    )


def _duration(duration_s: float | None) -> str:
    return "" if duration_s is None else duration_text(duration_s)


def _verdict(result: ShownResult) -> tuple[str, Status]:
    if result.problem:
        status = Status.BAD if result.is_held_against or result.is_wrong else Status.WARN
        return shortened(result.problem, _LONGEST_REASON), status
    if result.is_accurate is None:
        return "not compared" if result.max_abs_error is None else "no tolerance", Status.PLAIN
    return ("accurate", Status.GOOD) if result.is_accurate else ("wrong output", Status.BAD)


def _quarantine_row(entry: QuarantineEntry) -> QuarantineRow:
    versions = [entry.ep_version, entry.driver_version and f"driver {entry.driver_version}"]
    return QuarantineRow(
        variant=f"{entry.component_name}, {entry.variant_name}",
        runner=f"{short_ep_names(entry.ep_name)}, {entry.backend}",
        versions=", ".join(version for version in versions if version) or "unknown",
        cause=entry.cause.value.lower().replace("_", " "),
        detail=shortened(entry.detail, _LONGEST_REASON),
        recorded_at=_day_and_time(entry.recorded_at),
    )


def _day_and_time(text: str) -> str:
    """Return an ISO 8601 time to the minute."""
    return text[:16].replace("T", " ")


def _facts(facts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in list(facts.items())[:_MOST_FACTS]:
        if value:
            what = shortened(name, _LONGEST_TEXT)
            yield what[:1].upper() + what[1:], shortened(value, _LONGEST_TEXT)
