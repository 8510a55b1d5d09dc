"""``ortpkg dedup``: stores weights that several variants have only once."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ortpkg.authoring.sharing.dedup import DedupReport, dedup
from ortpkg.cli.dry_run import operations_for
from ortpkg.cli.parameters import DryRunOption, PackageArgument
from ortpkg.cli.progress import copy_progress
from ortpkg.cli.quantity_arguments import nbytes_argument
from ortpkg.cli.rendering import Output, nbytes_text
from ortpkg.cli.table_layout import Column
from ortpkg.foundations.errors import ExitCode

LayoutOption = Annotated[
    str,
    typer.Option(
        "--layout",
        metavar="L",
        help=(
            "common-directory; shared-weights: what is shared lies in"
            " shared_weights/<SHA-256>/model.data; or "
            "shared-assets: in shared_assets/sha256-<hex>/ (component format; for onnxruntime"
            " 1.28 on)."
        ),
    ),
]
ExternalizeOption = Annotated[
    int | None,
    typer.Option(
        "--externalize",
        metavar="SIZE",
        help=(
            "Share weights of this size and more in the ONNX files themselves, too: 64kB (at"
            " least 1KiB)."
        ),
        parser=nbytes_argument,
    ),
]


def command(
    output: Output,
    package: PackageArgument,
    layout: LayoutOption = "common-directory",
    externalize: ExternalizeOption = None,
    dry_run: DryRunOption = False,
) -> int:
    """Store weights that several variants of a component have once, whatever their names.

    Variants that share come to lie in one folder, beside the data, and each still loads by its path
    alone.
    """
    with copy_progress() as progress:
        report = dedup(
            package,
            layout=layout,
            externalize_nbytes=externalize,
            operations=operations_for(dry_run),
            progress=progress,
            notify=output.note,
        )
    if output.is_json:
        output.json("dedup", _report_json(report))
    else:
        _print_report(report, output, looks_inside=externalize is not None)
    return ExitCode.DONE


def _print_report(report: DedupReport, output: Output, *, looks_inside: bool) -> None:
    if report.moved:
        output.table(
            [Column("variant"), Column("model file")],
            [(f"{item.component}/{item.variant}", item.model_file) for item in report.moved],
        )
        output.table(
            [Column("file"), Column("saved", is_numeric=True)],
            [*report.removed.items(), *((file, -nbytes) for file, nbytes in report.added.items())],
        )
    for item in report.left_out:
        output.warning(f"{item.component}/{item.variant} shares nothing: {item.reason}")
    saved = f"{report.saved_nbytes} bytes ({nbytes_text(report.saved_nbytes)})"
    if not report.moved:
        hint = (
            "" if looks_inside else " (weights inside the ONNX files count with --externalize SIZE)"
        )
        output.note(f"nothing to save; nothing was changed{hint}")
    else:
        output.note(f"saved {saved}")


def _report_json(report: DedupReport) -> dict[str, Any]:
    return {
        "dry_run": report.is_dry_run,
        "saved_nbytes": report.saved_nbytes,
        "moved": [
            {
                "component": item.component,
                "variant": item.variant,
                "folder": item.folder,
                "model_file": item.model_file,
            }
            for item in report.moved
        ],
        "removed": [{"file": file, "nbytes": nbytes} for file, nbytes in report.removed.items()],
        "added": [{"file": file, "nbytes": nbytes} for file, nbytes in report.added.items()],
        "left_out": [
            {"component": item.component, "variant": item.variant, "reason": item.reason}
            for item in report.left_out
        ],
    }
