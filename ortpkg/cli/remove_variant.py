"""``ortpkg remove-variant``: removes a variant and its files from a package."""

from __future__ import annotations

from typing import Annotated

import typer

from ortpkg.authoring.create import remove_variant
from ortpkg.cli.completion import complete_variant
from ortpkg.cli.dry_run import operations_for
from ortpkg.cli.package_json import package_json
from ortpkg.cli.parameters import ComponentOption, DryRunOption, PackageArgument
from ortpkg.cli.rendering import Output
from ortpkg.foundations.errors import ExitCode

VariantArgument = Annotated[
    str,
    typer.Argument(metavar="VARIANT", help="The variant's name.", autocompletion=complete_variant),
]


def command(
    output: Output,
    package: PackageArgument,
    variant: VariantArgument,
    component: ComponentOption = None,
    dry_run: DryRunOption = False,
) -> int:
    """Take a variant out of a package; files that another variant uses stay."""
    info = remove_variant(
        package,
        variant,
        component=component,
        notify=output.note,
        operations=operations_for(dry_run),
    )
    if output.is_json:
        output.json("package", package_json(info))
    else:
        output.note(f"removed {variant} from {package}")
    return ExitCode.DONE
