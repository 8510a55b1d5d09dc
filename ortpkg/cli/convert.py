"""``ortpkg convert``: writes a package in another generation of the format."""

from __future__ import annotations

from typing import Annotated

import typer

from ortpkg.authoring.convert import convert
from ortpkg.cli.completion import complete_format
from ortpkg.cli.dry_run import operations_for
from ortpkg.cli.package_json import package_json
from ortpkg.cli.parameters import (
    FORMATS_HELP,
    DryRunOption,
    InPlaceOption,
    NewPackageOption,
    OverwriteOption,
    WholePackageArgument,
    chosen_output,
)
from ortpkg.cli.progress import copy_progress
from ortpkg.cli.rendering import Output
from ortpkg.foundations.errors import ExitCode

ToOption = Annotated[
    str,
    typer.Option(
        "--to",
        metavar="F",
        help=FORMATS_HELP,
        autocompletion=complete_format,
    ),
]
LossyOption = Annotated[
    bool, typer.Option("--force", help="Leave out what the new format cannot mean.")
]


def command(
    output: Output,
    package: WholePackageArgument,
    to: ToOption,
    output_path: NewPackageOption = None,
    in_place: InPlaceOption = False,
    force: LossyOption = False,
    overwrite: OverwriteOption = False,
    dry_run: DryRunOption = False,
) -> int:
    """Write a package in another generation of the format.

    Every file is re-hashed first, and nothing is lost.
    """
    target = chosen_output(output_path, in_place=in_place)
    with copy_progress() as progress:
        info = convert(
            package,
            to,
            output=target,
            force=force,
            progress=progress,
            notify=output.warning,
            overwrite=overwrite,
            operations=operations_for(dry_run),
        )
    if output.is_json:
        output.json("package", package_json(info))
    else:
        output.note(f"{target or package} is a {info.format} package")
    return ExitCode.DONE
