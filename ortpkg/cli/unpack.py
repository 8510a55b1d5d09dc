"""``ortpkg unpack``: makes a folder from a packed package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ortpkg.api.packing import unpack
from ortpkg.cli.dry_run import operations_for
from ortpkg.cli.pack_report import print_packed
from ortpkg.cli.package_argument import Use, package_parser
from ortpkg.cli.parameters import DryRunOption, OverwriteOption
from ortpkg.cli.progress import copy_progress
from ortpkg.cli.rendering import Output
from ortpkg.cli.table_layout import Column
from ortpkg.foundations.errors import ExitCode
from ortpkg.package.archive.archive_reader import open_archive

PackedFileArgument = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help="A packed package (name.ortpkg).", parser=package_parser(Use.UNPACK)
    ),
]
FolderOutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="DIR",
        help="Default: the file's name with .ortpackage, right here.",
    ),
]
ListOnlyOption = Annotated[bool, typer.Option("--list", help="Only list what would be unpacked.")]


def command(
    output: Output,
    file: PackedFileArgument,
    output_path: FolderOutputOption = None,
    list_only: ListOnlyOption = False,
    overwrite: OverwriteOption = False,
    dry_run: DryRunOption = False,
) -> int:
    """Unpack a package; its directory appears once each file is there as digests.json has it."""
    if list_only:
        return _list(file, output)
    target = output_path or Path(f"{file.name.removesuffix('.ortpkg')}.ortpackage")
    with copy_progress() as progress:
        report = unpack(
            file,
            target,
            progress=progress,
            notify=output.note,
            overwrite=overwrite,
            operations=operations_for(dry_run),
        )
    if not report.is_verified:
        output.warning(
            f"unverified: {file} has no digests.json; one was written for the files as they came"
        )
    print_packed("unpack", report, target, output)
    return ExitCode.DONE


def _list(file: Path, output: Output) -> int:
    with open_archive(file) as archive:
        entries = archive.entries
    if output.is_json:
        output.json(
            "archive",
            {"entries": [{"name": entry.name, "nbytes": entry.nbytes} for entry in entries]},
        )
    else:
        output.table(
            [Column("bytes", is_numeric=True), Column("file")],
            [(entry.nbytes, entry.name) for entry in entries],
        )
    return ExitCode.DONE
