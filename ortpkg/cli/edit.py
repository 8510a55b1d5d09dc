"""``ortpkg edit``: changes a package's description, and its variants' order, options and models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ortpkg.authoring.edit import PackageEdits, edit
from ortpkg.cli.completion import complete_variant
from ortpkg.cli.dry_run import operations_for
from ortpkg.cli.package_json import package_json
from ortpkg.cli.parameters import (
    ComponentOption,
    DescriptionOption,
    DryRunOption,
    ForceOption,
    ModelVersionOption,
    PackageArgument,
    ProviderOptionsOption,
    parse_options,
)
from ortpkg.cli.progress import copy_progress
from ortpkg.cli.rendering import Output
from ortpkg.foundations.errors import ExitCode

_Text = str | None


NameOption = Annotated[_Text, typer.Option("--name", metavar="NAME", help="The package's name.")]
LicenseOption = Annotated[
    _Text,
    typer.Option(
        "--license",
        metavar="L",
        help="The model's licence, such as Apache-2.0 (an SPDX expression).",
    ),
]
OrderOption = Annotated[
    list[str] | None,
    typer.Option(
        "--order",
        metavar="NAME[,NAME]",
        help="Variants that come first.",
        autocompletion=complete_variant,
    ),
]
VariantOption = Annotated[
    _Text,
    typer.Option(
        "--variant",
        metavar="NAME",
        help="The variant that options and --model belong to.",
        autocompletion=complete_variant,
    ),
]
VariantVersionOption = Annotated[
    _Text,
    typer.Option(
        "--variant-version", metavar="V", help="The --variant's own; default: the package's."
    ),
]
SessionOptionsOption = Annotated[
    list[str] | None,
    typer.Option("--session-option", metavar="KEY=VALUE", help="Set one. Repeatable."),
]
RemovedOptionsOption = Annotated[
    list[str] | None,
    typer.Option("--remove-option", metavar="KEY", help="Take one out. Repeatable."),
]
ModelOption = Annotated[
    Path | None,
    typer.Option(
        "--model",
        metavar="MODEL",
        help="An ONNX file or folder in place of the variant's.",
        readable=False,
    ),
]


def command(
    output: Output,
    package: PackageArgument,
    name: NameOption = None,
    version: ModelVersionOption = None,
    description: DescriptionOption = None,
    license_text: LicenseOption = None,
    component: ComponentOption = None,
    order: OrderOption = None,
    variant: VariantOption = None,
    variant_version: VariantVersionOption = None,
    session_options: SessionOptionsOption = None,
    provider_options: ProviderOptionsOption = None,
    removed_options: RemovedOptionsOption = None,
    model: ModelOption = None,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
) -> int:
    """Change what a package says of itself, its variants' order, a variant's options or model.

    An empty text ("") takes a version, description or licence out; a variant without a version has
    the package's.
    """
    edits = PackageEdits(
        name=name,
        version=version,
        description=description,
        license=license_text,
        component=component,
        order=tuple(
            variant_name for text in order or () for variant_name in text.split(",") if variant_name
        ),
        variant=variant,
        session_options=parse_options("--session-option", session_options),
        provider_options=parse_options("--provider-option", provider_options),
        removed_options=tuple(removed_options or ()),
        model=model,
        variant_version=variant_version,
    )
    with copy_progress() as progress:
        info = edit(
            package,
            edits,
            force=force,
            progress=progress,
            notify=output.warning,
            operations=operations_for(dry_run),
        )
    if output.is_json:
        output.json("package", package_json(info))
    else:
        output.note(f"changed {package}")
    return ExitCode.DONE
