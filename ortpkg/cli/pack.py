"""``ortpkg pack``: writes a package to one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ortpkg.api.packing import pack
from ortpkg.cli.dry_run import operations_for
from ortpkg.cli.pack_report import print_packed
from ortpkg.cli.parameters import DryRunOption, OverwriteOption, WholePackageArgument
from ortpkg.cli.progress import copy_progress
from ortpkg.cli.rendering import Output
from ortpkg.foundations.errors import ExitCode

PackedOutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Default: the package's name with .ortpkg, right here.",
    ),
]


def command(
    output: Output,
    package: WholePackageArgument,
    output_path: PackedOutputOption = None,
    overwrite: OverwriteOption = False,
    dry_run: DryRunOption = False,
) -> int:
    """Write a package to one file; the same package always gives the same bytes."""
    target = output_path or Path(f"{package.resolve().name.removesuffix('.ortpackage')}.ortpkg")
    with copy_progress() as progress:
        report = pack(
            package,
            target,
            progress=progress,
            notify=output.note,
            overwrite=overwrite,
            operations=operations_for(dry_run),
        )
    if not report.is_verified:
        output.warning(
            f"{package} had no digests.json, so damage to it went unnoticed; the archive has one"
        )
    print_packed("pack", report, target, output)
    return ExitCode.DONE
