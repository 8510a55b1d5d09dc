"""What was measured of the package on this machine, when and with what, and what is quarantined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ortpkg.drawing.svg import shortened
from ortpkg.ep_names import short_ep_names
from ortpkg.measuring.measured_candidates import CandidateResult
from ortpkg.measuring.results_picture import results_figure
from ortpkg.measuring.shown_results import ShownResult, recorded_result, shown_result
from ortpkg.quantities import duration_text, nbytes_text
from ortpkg.report.report_subject import ReportSubject
from ortpkg.report.sections.section import MOST_ROWS, Section, Status, left_out
from ortpkg.selection.measurements import Measurement, QuarantineEntry, SelectionRecords

_MOST_FACTS = 40
_LONGEST_TEXT, _LONGEST_REASON = 120, 300


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRow:
    """One variant on an EP device, in words; "" for what is not known.

    Attributes:
        component, variant, place: which, and what ran it.
        median, rounds, p95: the time of one run; ``rounds`` are the least and the greatest median
            of a round.
        rate: runs per second.
        cold_start, first_run: from nothing to a session, and its first run.
        memory, error, cosine: the peak, and the distance from what was expected.
        verdict: whether outputs are within the tolerance, or why it was not measured.
        status: how good that is.
    """

    component: str
    variant: str
    place: str
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
    """One variant that must not run somewhere, and why."""

    variant: str
    place: str
    versions: str
    cause: str
    detail: str
    recorded_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchSection(Section):
    """What was measured, the fastest first.

    Attributes:
        made: when and for what, in a sentence; "" where nothing was measured.
        stale: why it no longer counts; "" where it does.
        picture: a figure; "" where nothing was measured.
        rows: in the order of the picture.
        quarantined: what must not run here.
        facts: (what, value) of the machine and the versions that it was measured with.
        left_out: the sentences on what is not shown.
    """

    made: str
    stale: str
    picture: str
    rows: tuple[BenchRow, ...]
    quarantined: tuple[QuarantineRow, ...]
    facts: tuple[tuple[str, str], ...]
    left_out: tuple[str, ...]


def bench_section(subject: ReportSubject) -> BenchSection:
    """The results of this report, else what was recorded on this machine."""
    state = subject.recorded
    records = SelectionRecords() if state is None else state.records
    recorded_at = "" if state is None else _day_and_time(state.recorded_at)
    if subject.results:
        pairs = [(shown_result(each), _fresh_extras(each)) for each in subject.results]
        made, stale = "Measured for this report.", ""
    else:
        ordered = sorted(records.measurements, key=lambda each: each.p50_s)
        pairs = [(recorded_result(each), _recorded_extras(each)) for each in ordered]
        made = f"Measured on this machine, the last on {recorded_at}." if pairs else ""
        stale = records.problem or records.stale_reason
    # Stable: within a component the order stays.
    places = {each.name: number for number, each in enumerate(subject.info.components)}
    pairs.sort(key=lambda pair: places.get(pair[0].component_name, len(places)))
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
            each
            for each in (
                left_out(len(pairs) - MOST_ROWS, "results", "ortpkg bench --json"),
                left_out(len(records.quarantined) - MOST_ROWS, "entries", "ortpkg quarantine list"),
            )
            if each
        ),
    )


def _headline(
    results: Sequence[ShownResult],
    count: int,
    quarantined: Sequence[QuarantineEntry],
    stale: str,
) -> str:
    said = [f"{len(quarantined)} in quarantine"] if quarantined else []
    timed = [(each.p50_s, each) for each in results if each.p50_s is not None and not each.is_wrong]
    if not timed:
        return "; ".join((f"{count} candidates, none ran well" if count else _NOTHING, *said))
    first = timed[0][1].component_name
    p50_s, best = min(
        (pair for pair in timed if pair[1].component_name == first), key=lambda pair: pair[0]
    )
    fastest = f"{shortened(best.variant_name, _LONGEST_TEXT)} ({best.backend})"
    if any(each.component_name != first for _, each in timed):
        fastest = f"{shortened(first, _LONGEST_TEXT)}: {fastest}"
    failed = sum(each.p50_s is None for each in results)
    measured = f"{count - failed} of {count} measured" if failed else f"{count} measured"
    said = [f"Fastest {fastest}, {duration_text(p50_s)}", measured, *said]
    return "; ".join([*said, "no longer counts"] if stale else said)


_NOTHING = "Nothing was measured on this machine"


def _status(
    results: Sequence[ShownResult], quarantined: Sequence[QuarantineEntry], stale: str
) -> Status:
    if any(each.is_wrong or each.is_held_against for each in results):
        return Status.BAD
    if quarantined or stale:
        return Status.WARN
    return Status.GOOD if results else Status.PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class _Extras:
    """What a table has more than the picture."""

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
        place=f"{short_ep_names(result.ep_name)}, {result.backend}",
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
        place=f"{short_ep_names(entry.ep_name)}, {entry.backend}",
        versions=", ".join(each for each in versions if each) or "unknown",
        cause=entry.cause.value.lower().replace("_", " "),
        detail=shortened(entry.detail, _LONGEST_REASON),
        recorded_at=_day_and_time(entry.recorded_at),
    )


def _day_and_time(text: str) -> str:
    """An ISO 8601 time to the minute."""
    return text[:16].replace("T", " ")


def _facts(facts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in list(facts.items())[:_MOST_FACTS]:
        if value:
            what = shortened(name, _LONGEST_TEXT)
            yield what[:1].upper() + what[1:], shortened(value, _LONGEST_TEXT)
