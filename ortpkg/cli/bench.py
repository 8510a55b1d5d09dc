"""``ortpkg bench``: measures speed, memory and accuracy of every variant that can run here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ortpkg.api.model_package import ModelPackage
from ortpkg.authoring.opening import opened
from ortpkg.cli.bench_progress import bench_progress
from ortpkg.cli.bench_text import print_report
from ortpkg.cli.choice_options import VariantFilter
from ortpkg.cli.current_package import chosen_package
from ortpkg.cli.given_inputs import parse_sizes
from ortpkg.cli.output_files import OutputKind, OverwriteFileOption, verify_output, write_text
from ortpkg.cli.parameters import SampledPackageArgument, TrustOption
from ortpkg.cli.quantity_arguments import duration_argument, nbytes_argument, whole_number
from ortpkg.cli.rendering import Output
from ortpkg.foundations.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from ortpkg.api.bench.benchmark import BenchReport
    from ortpkg.selection.measuring.measured_candidates import Plan


BackendOption = Annotated[
    str | None,
    typer.Option(
        "--backend", metavar="B", help="Only this backend: embedded, openvino, onnxruntime, ..."
    ),
]
RepeatOption = Annotated[
    int | None,
    typer.Option(
        "--repeat",
        metavar="N",
        help="At least this many runs of each; default 30.",
        parser=whole_number(1),
    ),
]
DurationOption = Annotated[
    float | None,
    typer.Option(
        "--duration",
        metavar="T",
        help="Run each for this long: 2s, 500ms; a number alone is seconds.",
        parser=duration_argument,
    ),
]
BatchRowsOption = Annotated[
    list[int] | None,
    typer.Option(
        "--batch-rows",
        metavar="N",
        help=("Time runs of so many rows too, where the model leaves that open. Repeatable."),
        parser=whole_number(1, 100_000),
    ),
]
RoundsOption = Annotated[
    int,
    typer.Option(
        "--rounds", metavar="N", help="Child processes for each.", parser=whole_number(1, 100)
    ),
]
ThreadsOption = Annotated[
    int | None,
    typer.Option(
        "--threads",
        metavar="N",
        help="Threads of every backend; default: one per CPU.",
        parser=whole_number(1),
    ),
]
TimeoutOption = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar="T",
        help=(
            "Time after which one child process is ended: 90s, 5min; a number alone is seconds. "
            "Default: 120s; less is held against no variant."
        ),
        show_default=False,
        parser=duration_argument,
    ),
]
MemoryLimitOption = Annotated[
    int | None,
    typer.Option(
        "--memory-limit",
        metavar="SIZE",
        help=(
            "A child process that holds more is ended: 800MB, 2GiB, a number alone is bytes; "
            "default: 90 % of all. Less is held against no "
            "variant."
        ),
        parser=nbytes_argument,
    ),
]
DimensionsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--dim", metavar="NAME=SIZE", help="A size for inputs that are made up. Repeatable."
    ),
]
SvgOption = Annotated[
    Path | None, typer.Option("--svg", metavar="FILE", help="Write a picture of the result.")
]
RecordOption = Annotated[
    bool,
    typer.Option("--record/--no-record", help="Keep the results for select --policy measured."),
]


def command(
    output: Output,
    package: SampledPackageArgument = None,
    *,
    choice: VariantFilter,
    backend: BackendOption = None,
    repeat: RepeatOption = None,
    duration: DurationOption = None,
    rounds: RoundsOption = 3,
    batch_rows: BatchRowsOption = None,
    threads: ThreadsOption = None,
    timeout: TimeoutOption = 120.0,
    memory_limit: MemoryLimitOption = None,
    dimensions: DimensionsOption = None,
    svg: SvgOption = None,
    overwrite: OverwriteFileOption = False,
    record: RecordOption = True,
    trust: TrustOption = False,
) -> int:
    """Measure every variant on everything here that can run it, each in a process of its own.

    Says how fast it is, how much memory it takes and how far its outputs are from what the package
    expects. A terminal shows how the times of runs spread, too.
    """
    if svg is not None:
        verify_output(svg, "--svg", OutputKind.PICTURE, overwrite=overwrite)
    from ortpkg.api.bench.benchmark import BenchWishes, bench  # numpy and onnx

    wishes = BenchWishes(
        component=choice.component,
        variant=choice.variant,
        ep=choice.ep,
        device=choice.device,
        backend=backend,
        sizes=parse_sizes(dimensions),
        trust=trust,
        threads=threads,
        record=record,
    )
    plan = replace(
        _plan(repeat, duration, rounds, timeout),
        memory_limit_nbytes=memory_limit,
        batch_rows=tuple(sorted(set(batch_rows or ()))),
    )
    with opened(chosen_package(package, output)) as info, bench_progress(output) as on_step:
        report = bench(
            ModelPackage.of(info, trust=trust), wishes, plan, on_step=on_step, on_note=output.note
        )
    return _print_result(report, output, svg)


def _print_result(report: BenchReport, output: Output, svg: Path | None) -> int:
    """Print the report, draw it if a picture is wanted, and return the exit code."""
    if output.is_json:
        from ortpkg.cli.bench_json import report_json  # as above

        output.json("bench", report_json(report))
    else:
        print_report(report, output)
    if svg is not None:
        _write_svg(svg, report)
        output.note(f"wrote {svg}")
    if report.was_interrupted:
        output.warning("interrupted: this is what was measured until then")
        return ExitCode.CANCELLED
    exit_code = _exit_code(report)
    if exit_code is not ExitCode.DONE:
        output.warning("nothing was measured: no candidate ran to its end")
    return exit_code


def _exit_code(report: BenchReport) -> ExitCode:
    """Return DONE if anything ran.

    Otherwise the reason decides: failures, limits of the caller, or nothing that could run.
    """
    outcomes = {result.outcome.value for result in report.results}
    if outcomes & {"measured", "wrong output"}:
        return ExitCode.DONE
    if outcomes & {"failed", "crashed", "hung"}:
        return ExitCode.MODEL
    return ExitCode.FINDINGS if "over the limit" in outcomes else ExitCode.NO_SUITABLE_VARIANT


def _plan(repeat: int | None, duration_s: float | None, rounds: int, timeout_s: float) -> Plan:
    from ortpkg.selection.measuring.measured_candidates import Plan  # numpy

    if repeat is not None and duration_s is not None:
        raise UsageError("give --repeat or --duration, not both")
    default = Plan()
    if duration_s is not None:
        return Plan(
            repeat=1, duration_s=duration_s, most_s=duration_s, rounds=rounds, timeout_s=timeout_s
        )
    if repeat is not None:
        # As many runs as requested, however long they take; only the timeout ends them.
        return Plan(
            repeat=repeat,
            duration_s=0.0,
            most_s=timeout_s * rounds,
            rounds=rounds,
            timeout_s=timeout_s,
        )
    return Plan(
        repeat=default.repeat,
        duration_s=default.duration_s,
        rounds=rounds,
        most_s=default.most_s,
        timeout_s=timeout_s,
    )


def _write_svg(path: Path, report: BenchReport) -> None:
    from ortpkg.selection.measuring.results_picture import (
        results_svg,  # only where a picture is asked for
    )
    from ortpkg.selection.measuring.shown_results import shown_result

    plan = report.plan
    subtitle = (
        f"{plan.threads} threads for every backend, {plan.rounds} rounds, each candidate in a"
        " process of its own"
    )
    title = f"{report.package_name}: time, error and memory"
    picture = results_svg(list(map(shown_result, report.results)), title=title, subtitle=subtitle)
    write_text(path, "--svg", picture)
