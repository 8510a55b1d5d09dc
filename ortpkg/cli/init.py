"""``ortpkg init``: makes an empty package, to which variants can be added."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ortpkg.authoring.create import init_package
from ortpkg.cli.dry_run import operations_for
from ortpkg.cli.package_json import package_json
from ortpkg.cli.parameters import (
    DryRunOption,
    FormatOption,
    ModelVersionOption,
    NameOption,
    OverwriteOption,
)
from ortpkg.cli.rendering import Output
from ortpkg.foundations.errors import ExitCode

PackageArgument = Annotated[
    Path,
    typer.Argument(
        metavar="PKG", help="The package's directory (name.ortpackage).", readable=False
    ),
]


def command(
    output: Output,
    package: PackageArgument,
    name: NameOption = None,
    version: ModelVersionOption = None,
    form: FormatOption = "universal",
    overwrite: OverwriteOption = False,
    dry_run: DryRunOption = False,
) -> int:
    """Make an empty package; add-variant fills it."""
    info = init_package(
        package,
        name=name,
        version=version,
        form=form,
        overwrite=overwrite,
        notify=output.note,
        operations=operations_for(dry_run),
    )
    if output.is_json:
        output.json("package", package_json(info))
    else:
        output.note(f"made {package}, which is empty: ortpkg add-variant {package} MODEL fills it")
    return ExitCode.DONE
