"""``ortpkg convert``: the same package in another generation of the format."""

from __future__ import annotations

from typing import Annotated

import typer

from ortpkg.authoring.convert import convert
from ortpkg.cli.completion import complete_format
from ortpkg.cli.dry_run import operations_for
from ortpkg.cli.inspect import package_json
from ortpkg.cli.parameters import (
    DryRunOption,
    InPlaceOption,
    JsonOption,
    NewPackageOption,
    OverwriteOption,
    ReadPackageArgument,
    chosen_output,
)
from ortpkg.cli.progress import copy_progress
from ortpkg.cli.rendering import Output
from ortpkg.errors import ExitCode


def command(
    package: ReadPackageArgument,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="F",
            help=(
                "universal (onnxruntime 1.26 to 1.31), metadata (1.26, 1.27) or component (1.28"
                " on)."
            ),
            autocompletion=complete_format,
        ),
    ],
    output_path: NewPackageOption = None,
    in_place: InPlaceOption = False,
    force: Annotated[
        bool, typer.Option("--force", help="Leave out what the new format cannot mean.")
    ] = False,
    overwrite: OverwriteOption = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> int:
    """Write a package in another generation of the format.

    Every file is re-hashed first, and nothing is lost.
    """
    output = Output(is_json=as_json)
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
    if as_json:
        output.json("package", package_json(info))
    else:
        output.note(f"{target or package} is a {info.format} package")
    return ExitCode.DONE
