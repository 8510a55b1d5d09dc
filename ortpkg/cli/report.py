"""``ortpkg report``: writes one HTML page with everything known of a package."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ortpkg.api.model_package import ModelPackage
from ortpkg.authoring.opening import opened
from ortpkg.cli.current_package import chosen_package
from ortpkg.cli.early_checks import verify_eps, verify_profiles
from ortpkg.cli.load_limits import LoadLimits, end_at_limits
from ortpkg.cli.output_files import (
    OutputKind,
    OverwriteFileOption,
    verify_output,
    verify_outside,
    write_text,
)
from ortpkg.cli.package_argument import Use, package_parser
from ortpkg.cli.parameters import ProfilesOption, TrustOption, one_of
from ortpkg.cli.progress import copy_progress
from ortpkg.cli.quantity_arguments import named_size
from ortpkg.cli.rendering import Output, nbytes_text
from ortpkg.foundations.errors import ExitCode
from ortpkg.report.report_wishes import DrawnGraphs, ReportWishes

if TYPE_CHECKING:
    from ortpkg.runtime.session.options import SessionOptions
    from ortpkg.selection.measuring.measured_candidates import CandidateResult

_DEFAULT_OUTPUT = Path("report.html")


ReportedPackageArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="REF",
        help=(
            "A package: a folder (name.ortpackage), a name in the store, oci://host/repository:tag,"
            " ..., packed (name.ortpkg), or an ONNX file; default: what the current folder lies in."
        ),
        parser=package_parser(Use.READ),
    ),
]
OutputOption = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", help="Write the page to this file.")
]
GraphsOption = Annotated[
    DrawnGraphs,
    typer.Option(
        "--graphs",
        **one_of(DrawnGraphs),
        help="Variants whose graphs are drawn: those chosen here, all, or none.",
    ),
]
PlannedEpsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--ep",
        metavar="EP",
        help=(
            "Divide the graphs among these execution providers, the first one first; what none"
            " takes runs on the CPU. Repeatable."
        ),
    ),
]
PlannedBackendOption = Annotated[
    str | None,
    typer.Option(
        "--backend",
        metavar="B",
        help=(
            "Backend that plans the graphs; auto: that of ortpkg run. Default: the embedded engine"
            " where it runs the variant."
        ),
    ),
]
ReportSizesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--size",
        metavar="NAME=SIZE",
        help=(
            "Show the memory of plans at this size of a symbolic dimension; default: 1. Repeatable."
        ),
    ),
]
BenchOption = Annotated[
    bool,
    typer.Option(
        "--bench", help="Measure every variant first, as ortpkg bench does, and record it."
    ),
]
VerifyOption = Annotated[
    bool,
    typer.Option("--verify", help="Hash every file, however large; default: the first 256 MB."),
]
OpenOption = Annotated[bool, typer.Option("--open", help="Show the page in the browser.")]


def command(
    output: Output,
    package: ReportedPackageArgument = None,
    output_file: OutputOption = _DEFAULT_OUTPUT,
    profile: ProfilesOption = None,
    graphs: GraphsOption = DrawnGraphs.CHOSEN,
    ep: PlannedEpsOption = None,
    backend: PlannedBackendOption = None,
    sizes: ReportSizesOption = None,
    run_bench: BenchOption = False,
    verify: VerifyOption = False,
    open_page: OpenOption = False,
    overwrite: OverwriteFileOption = False,
    trust: TrustOption = False,
    *,
    limits: LoadLimits,
) -> int:
    """Write one HTML page that shows all that is known of a package, with pictures.

    What it holds, why a variant won, where nodes run, how memory lives, what was measured, what is
    verified, and what is wrong. The page is one file and asks nothing of any network.
    """
    verify_output(output_file, "-o", OutputKind.PAGE, overwrite=overwrite)
    verify_profiles(profile or ())
    verify_eps(ep or ())
    with (
        end_at_limits(limits, output) if not run_bench else nullcontext(),
        copy_progress() as progress,
        opened(chosen_package(package, output), progress=progress) as info,
    ):
        verify_outside(output_file, "-o", info)
        opened_package = ModelPackage.of(info, trust=trust)
        wishes = ReportWishes(
            profiles=tuple(profile or ()),
            graphs=graphs,
            backend=backend,
            eps=tuple(ep or ()),
            sizes=dict(named_size("--size", text) for text in sizes or ()),
            results=_measured(opened_package, output, trust=trust) if run_bench else (),
            verifies_all=verify,
        )
        page = opened_package.report(wishes, sess_options=_session_options(limits))
    write_text(output_file, "-o", page)
    _tell(output_file, page, output)
    if open_page:
        _open(output_file, output)
    return ExitCode.DONE


def _measured(package: ModelPackage, output: Output, *, trust: bool) -> tuple[CandidateResult, ...]:
    from ortpkg.api.bench.benchmark import BenchWishes, bench  # numpy and onnx
    from ortpkg.cli.bench_progress import bench_progress

    with bench_progress(output) as on_step:
        report = bench(package, BenchWishes(trust=trust), on_step=on_step, on_note=output.note)
    for note in report.notes:
        output.warning(note)
    return report.results


def _session_options(limits: LoadLimits) -> SessionOptions:
    from ortpkg.runtime.session.options import SessionOptions  # with the engine

    options = SessionOptions()
    options.memory_limit_nbytes, options.timeout_s = limits.memory_limit, limits.timeout
    return options


def _tell(path: Path, page: str, output: Output) -> None:
    nbytes = len(page.encode())
    if output.is_json:
        output.json("report", {"path": str(path.absolute()), "nbytes": nbytes})
    else:
        output.note(f"wrote {path} ({nbytes_text(nbytes)})")


def _open(path: Path, output: Output) -> None:
    import webbrowser  # only where it is asked for

    if not webbrowser.open(path.absolute().as_uri()):
        output.warning(f"no browser could be started; open {path} in one")
