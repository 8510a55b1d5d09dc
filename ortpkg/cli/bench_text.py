"""The result of a benchmark as text: tables, and sentences on what they do not say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ortpkg.cli.rendering import Output, duration_text, nbytes_text
from ortpkg.cli.table_layout import Column
from ortpkg.ep_names import short_ep_names

if TYPE_CHECKING:
    from ortpkg.bench.benchmark import BenchReport
    from ortpkg.measuring.measured_candidates import CandidateResult

#: Headings of the numbers, each with the order in which they are left out where there is no room
#: for all; 0: never.
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
    """Prints a table of the results, what they were measured on, and what is to be known of them.

    On a terminal that shows Unicode, how the times of runs spread comes after the table.
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
    """How often the times of runs were met, a column each; only terminals can show that."""
    from ortpkg.drawing.text_pictures import column_chart  # as above

    rows = []
    for result in report.results:
        if (times := result.times) is not None:
            chart = column_chart(times.histogram, len(times.histogram))[0]
            ends = (duration_text(times.fastest_s), duration_text(times.p95_s))
            rows.append(
                (*_place(result, shows_component=shows_components), ends[0], chart, ends[1])
            )
    columns = [Column("variant"), Column("on"), Column("fastest", is_numeric=True)]
    columns += [Column("how often"), Column("p95", is_numeric=True)]
    if rows:
        output.table(
            columns, rows, title="Spread: how often each time was met, but for the slowest"
        )


def _print_ties(report: BenchReport, output: Output) -> None:
    for component in report.workloads:
        close = not_told_apart(
            [each for each in report.results if each.candidate.component_name == component]
        )
        if close:
            output.line(
                f"not told apart from the best of {component}, as their rounds overlap:"
                f" {', '.join(close)}",
                hang="  ",
            )


def _batches_text(times: Sequence[tuple[int, float]]) -> str:
    """How long runs of several rows take, and which give the most rows a second."""
    runs = ", ".join(f"{rows} in {duration_text(time_s)}" for rows, time_s in times)
    most, time_s = max(times, key=lambda each: each[0] / max(each[1], 1e-9))
    return f"rows: {runs}; most a second in runs of {most}: {most / max(time_s, 1e-9):.4g}"


def not_told_apart(results: Sequence[CandidateResult]) -> list[str]:
    """The best results of one component: those whose rounds' medians overlap the winner's."""
    measured = [
        each for each in results if each.times is not None and each.outcome.value == "measured"
    ]
    if not measured or measured[0].times is None:
        return []
    highest_s = measured[0].times.highest_s
    return [
        f"{each.candidate.variant_name} ({each.candidate.ep_device.backend})"
        for each in measured[1:]
        if each.times is not None and each.times.lowest_s <= highest_s
    ]


def _place(result: CandidateResult, *, shows_component: bool) -> tuple[str, str]:
    """Which variant ran, and where."""
    candidate = result.candidate
    ep_device = candidate.ep_device
    name = (
        f"{candidate.component_name}/{candidate.variant_name}"
        if shows_component
        else candidate.variant_name
    )
    place = short_ep_names(ep_device.ep_name)
    if ep_device.device is not None and ep_device.device.type.value != place:
        place += f" {ep_device.device.type.value}"
    return name, f"{place}/{ep_device.backend}"


def _row(result: CandidateResult, *, shows_component: bool) -> tuple[str, ...]:
    where = _place(result, shows_component=shows_component)
    if result.times is None:
        return (*where, *[""] * 11, result.outcome.value)
    times = result.times
    memory = result.peak_memory_nbytes
    found = result.distance
    return (
        *where,
        duration_text(times.p50_s),
        _interval(times.lowest_s, times.highest_s),
        duration_text(times.p95_s),
        f"{times.throughput_per_s:.4g}",
        duration_text(result.first_run_s),
        duration_text(result.session_creation_s),
        duration_text(result.cold_start_s),
        "unknown" if memory is None else nbytes_text(memory),
        "" if found is None else f"{found.max_abs_error:.2g}",
        "" if found is None else f"{found.max_relative_error:.2g}",
        "" if found is None or found.cosine is None else f"{found.cosine:.6f}",
        _verdict(result),
    )


def _interval(lowest_s: float, highest_s: float) -> str:
    """Both ends, with the unit once where it is the same."""
    (lowest, unit), (highest, other) = (
        duration_text(lowest_s).split(),
        duration_text(highest_s).split(),
    )
    return f"{lowest}-{highest} {unit}" if unit == other else f"{lowest} {unit}-{highest} {other}"


def _verdict(result: CandidateResult) -> str:
    found = result.distance
    if found is None:
        return "not compared"
    return {True: "accurate", False: "WRONG OUTPUT", None: "no tolerance stated"}[found.is_within]
