"""``ortpkg slim``: makes a package with only the variants that are needed."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ortpkg.authoring.slim import SlimReport, slim
from ortpkg.cli.completion import complete_device, complete_ep, complete_variant
from ortpkg.cli.dry_run import operations_for
from ortpkg.cli.package_json import package_json
from ortpkg.cli.parameters import (
    DryRunOption,
    InPlaceOption,
    NewPackageOption,
    OverwriteOption,
    WholePackageArgument,
    chosen_output,
)
from ortpkg.cli.progress import copy_progress
from ortpkg.cli.rendering import Output, nbytes_text
from ortpkg.cli.table_layout import Column
from ortpkg.foundations.errors import ExitCode

_Lists = list[str] | None


DevicesOption = Annotated[
    _Lists,
    typer.Option(
        "--device",
        metavar="D[,D]",
        help="Keep what can run on these: cpu, gpu, npu.",
        autocompletion=complete_device,
    ),
]
EpsOption = Annotated[
    _Lists,
    typer.Option(
        "--ep",
        metavar="EP[,EP]",
        help="Keep what these can run: names or aliases.",
        autocompletion=complete_ep,
    ),
]
VariantsOption = Annotated[
    _Lists,
    typer.Option(
        "--variant",
        metavar="NAME[,NAME]",
        help="Keep these: VARIANT or COMPONENT/VARIANT.",
        autocompletion=complete_variant,
    ),
]


def command(
    output: Output,
    package: WholePackageArgument,
    output_path: NewPackageOption = None,
    in_place: InPlaceOption = False,
    devices: DevicesOption = None,
    eps: EpsOption = None,
    variants: VariantsOption = None,
    overwrite: OverwriteOption = False,
    dry_run: DryRunOption = False,
) -> int:
    """Keep the variants that suit both --device and --ep, and those of --variant.

    Drop what nothing refers to.
    """
    target = chosen_output(output_path, in_place=in_place)
    with copy_progress() as progress:
        report = slim(
            package,
            devices=_split(devices),
            eps=_split(eps),
            variants=_split(variants),
            output=target,
            progress=progress,
            notify=output.warning,
            overwrite=overwrite,
            operations=operations_for(dry_run),
        )
    if output.is_json:
        output.json("slim", _report_json(report))
    else:
        _print(report, output)
    return ExitCode.DONE


def _report_json(report: SlimReport) -> dict[str, Any]:
    sizes = [
        {
            "component": variant.component,
            "variant": variant.variant,
            "nbytes": variant.nbytes,
            "shared_nbytes": variant.shared_nbytes,
            "kept": variant.is_kept,
        }
        for variant in report.variants
    ]
    totals = {"before_nbytes": report.before_nbytes, "after_nbytes": report.after_nbytes}
    return {"variants": sizes, **totals, "package": package_json(report.package)}


def _print(report: SlimReport, output: Output) -> None:
    rows = [
        (
            variant.component,
            variant.variant,
            nbytes_text(variant.nbytes),
            nbytes_text(variant.shared_nbytes) if variant.shared_nbytes else "",
            "kept" if variant.is_kept else "dropped",
        )
        for variant in report.variants
    ]
    sizes = [Column("own size", is_numeric=True), Column("shared", is_numeric=True)]
    columns = [Column("component"), Column("variant"), *sizes, Column("")]
    output.table(columns, rows)
    saved = nbytes_text(max(0, report.before_nbytes - report.after_nbytes))
    output.note(
        f"{nbytes_text(report.after_nbytes)} of {nbytes_text(report.before_nbytes)} are left,"
        f" {saved} saved"
    )


def _split(texts: _Lists) -> list[str]:
    return [word for text in texts or () for word in text.split(",") if word]
