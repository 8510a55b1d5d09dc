"""Benchmark results as text: tables, and sentences on what the tables do not show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ortpkg.cli.rendering import Output, duration_text, nbytes_text
from ortpkg.cli.table_layout import Column
from ortpkg.foundations.ep_names import short_ep_names

if TYPE_CHECKING:
    from ortpkg.api.bench.benchmark import BenchReport
    from ortpkg.selection.measuring.measured_candidates import CandidateResult

#: Headings of the numbers, each with its rank among those that are left out if there is no room; 0
#: for never.
_NUMBERS = {
    "p50": 0,
    "between": 7,
    "p95": 8,
    "runs/s": 3,
    "first run": 5,
    "load": 4,
    "cold start": 6,
    "memory": 9,
    "max error": 10,
    "relative": 2,
    "cosine": 1,
}


def print_report(report: BenchReport, output: Output) -> None:
    """Print a table of the results, what they were measured on, and remarks.

    On a terminal with Unicode, a chart of the run times follows.
    """
    shows_components = len({result.candidate.component_name for result in report.results}) > 1
    numbers = [Column(heading, is_numeric=True, drops=drops) for heading, drops in _NUMBERS.items()]
    columns = [Column("variant"), Column("on"), *numbers, Column("verdict")]
    rows = [_row(result, shows_component=shows_components) for result in report.results]
    output.table(columns, rows, title=f"{report.package_name}, best first")
    if output.room.is_unicode:
        _print_spreads(report, output, shows_components=shows_components)
    for component, description in report.workloads.items():
        output.line(f"{component}: {description}", hang="  ")
    plan = report.plan
    output.line(
        f"{plan.threads} threads for every backend; {plan.rounds} rounds, each candidate in a new"
        " process each; 'between' is the lowest and the highest median of a round",
        hang="  ",
    )
    _print_ties(report, output)
    for result in report.results:
        if result.batch_times:
            output.line(f"{result.candidate.label}: {_batches_text(result.batch_times)}", hang="  ")
        if result.reason:
            output.line(f"{result.candidate.label}: {result.outcome}: {result.reason}", hang="  ")
    for note in report.notes:
        output.warning(note)
    for entry in report.quarantined:
        where = f"{entry.ep_name} ({entry.backend}) {entry.ep_version}".rstrip()
        output.warning(
            f"{entry.component_name}/{entry.variant_name} is in quarantine on {where}: it is not"
            " selected there; ortpkg quarantine clear lifts that"
        )
    if report.is_recorded:
        output.note(
            "recorded: ortpkg select --policy measured goes by it, ortpkg run by the fastest"
            " backend"
        )


def _print_spreads(report: BenchReport, output: Output, *, shows_components: bool) -> None:
    """Print how often each run time occurred, as a column chart, which only terminals can show."""
    from ortpkg.foundations.drawing.text_pictures import column_chart  # as above

    rows = []
    for result in report.results:
        if (times := result.times) is not None:
            chart = column_chart(times.histogram, len(times.histogram))[0]
            ends = (duration_text(times.fastest_s), duration_text(times.p95_s))
            rows.append(
                (
                    *_name_and_device(result, shows_component=shows_components),
                    ends[0],
                    chart,
                    ends[1],
                )
            )
    columns = [Column("variant"), Column("on"), Column("fastest", is_numeric=True)]
    columns += [Column("how often"), Column("p95", is_numeric=True)]
    if rows:
        output.table(
            columns, rows, title="Spread: how often each time was met, but for the slowest"
        )


def _print_ties(report: BenchReport, output: Output) -> None:
    for component in report.workloads:
        close = tied_with_best(
            [result for result in report.results if result.candidate.component_name == component]
        )
        if close:
            output.line(
                f"not told apart from the best of {component}, as their rounds overlap:"
                f" {', '.join(close)}",
                hang="  ",
            )


def _batches_text(times: Sequence[tuple[int, float]]) -> str:
    """Return how long runs of several rows take, and which have the highest rate."""
    runs = ", ".join(f"{rows} in {duration_text(time_s)}" for rows, time_s in times)
    most, time_s = max(times, key=lambda pair: pair[0] / max(pair[1], 1e-9))
    return f"rows: {runs}; most a second in runs of {most}: {most / max(time_s, 1e-9):.4g}"


def tied_with_best(results: Sequence[CandidateResult]) -> list[str]:
    """Return results of one component whose rounds' medians overlap those of the best."""
    measured = [
        result
        for result in results
        if result.times is not None and result.outcome.value == "measured"
    ]
    if not measured or measured[0].times is None:
        return []
    highest_s = measured[0].times.highest_s
    return [
        f"{result.candidate.variant_name} ({result.candidate.ep_device.backend})"
        for result in measured[1:]
        if result.times is not None and result.times.lowest_s <= highest_s
    ]


def _name_and_device(result: CandidateResult, *, shows_component: bool) -> tuple[str, str]:
    """Return the variant that ran, and where."""
    candidate = result.candidate
    ep_device = candidate.ep_device
    name = (
        f"{candidate.component_name}/{candidate.variant_name}"
        if shows_component
        else candidate.variant_name
    )
    device_text = short_ep_names(ep_device.ep_name)
    if ep_device.device is not None and ep_device.device.type.value != device_text:
        device_text += f" {ep_device.device.type.value}"
    return name, f"{device_text}/{ep_device.backend}"


def _row(result: CandidateResult, *, shows_component: bool) -> tuple[str, ...]:
    name_and_device = _name_and_device(result, shows_component=shows_component)
    if result.times is None:
        return (*name_and_device, *[""] * 11, result.outcome.value)
    times = result.times
    memory = result.peak_memory_nbytes
    distance = result.distance
    return (
        *name_and_device,
        duration_text(times.p50_s),
        _interval(times.lowest_s, times.highest_s),
        duration_text(times.p95_s),
        f"{times.throughput_per_s:.4g}",
        duration_text(result.first_run_s),
        duration_text(result.session_creation_s),
        duration_text(result.cold_start_s),
        "unknown" if memory is None else nbytes_text(memory),
        "" if distance is None else f"{distance.max_abs_error:.2g}",
        "" if distance is None else f"{distance.max_relative_error:.2g}",
        "" if distance is None or distance.cosine is None else f"{distance.cosine:.6f}",
        _verdict(result),
    )


def _interval(lowest_s: float, highest_s: float) -> str:
    """Return both ends, with the unit once if it is the same."""
    (lowest, unit), (highest, other) = (
        duration_text(lowest_s).split(),
        duration_text(highest_s).split(),
    )
    return f"{lowest}-{highest} {unit}" if unit == other else f"{lowest} {unit}-{highest} {other}"


def _verdict(result: CandidateResult) -> str:
    distance = result.distance
    if distance is None:
        return "not compared"
    return {True: "accurate", False: "WRONG OUTPUT", None: "no tolerance stated"}[
        distance.is_within
    ]
