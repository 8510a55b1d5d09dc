"""``ortpkg add-variant``: copies a model into a package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ortpkg.authoring.create import add_variant
from ortpkg.cli.completion import complete_component, complete_device, complete_ep
from ortpkg.cli.dry_run import operations_for
from ortpkg.cli.package_json import package_json
from ortpkg.cli.parameters import (
    DryRunOption,
    ForceOption,
    PackageArgument,
    ProviderOptionsOption,
    parse_options,
)
from ortpkg.cli.progress import copy_progress
from ortpkg.cli.rendering import Output
from ortpkg.foundations.errors import ExitCode
from ortpkg.package.package_info import PackageInfo

ModelArgument = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        help="An ONNX file (its data files come along) or a folder.",
        readable=False,
    ),
]
ComponentOption = Annotated[
    str | None,
    typer.Option(
        "--component",
        "-c",
        metavar="NAME",
        help=(
            "The component model; default: the only one. A name that is not there yet makes a new"
            " one."
        ),
        autocompletion=complete_component,
    ),
]
VariantOption = Annotated[
    str | None, typer.Option("--variant", metavar="NAME", help="Default: the file's stem.")
]
EpOption = Annotated[
    str | None,
    typer.Option(
        "--ep",
        metavar="EP",
        help="The EP that it needs: a name or an alias.",
        autocompletion=complete_ep,
    ),
]
DeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device", metavar="D", help="The device: cpu, gpu or npu.", autocompletion=complete_device
    ),
]
ArchitectureOption = Annotated[
    str | None, typer.Option("--architecture", metavar="A", help="The hardware architecture.")
]
CompatibilityInfoOption = Annotated[
    str | None,
    typer.Option("--compatibility-info", metavar="S", help="The EP's compatibility string."),
]
SessionOptionsOption = Annotated[
    list[str] | None,
    typer.Option("--session-option", metavar="KEY=VALUE", help="A session option. Repeatable."),
]
ShareWeightsOption = Annotated[
    bool,
    typer.Option(
        "--share-weights",
        help="Do not copy external data that another variant of the component has.",
    ),
]
ShareAsAssetsOption = Annotated[
    bool,
    typer.Option(
        "--share-as-assets",
        help=(
            "Likewise, in a shared asset of the package (component format; for onnxruntime 1.28"
            " on)."
        ),
    ),
]


def command(
    output: Output,
    package: PackageArgument,
    model: ModelArgument,
    component: ComponentOption = None,
    variant: VariantOption = None,
    ep: EpOption = None,
    device: DeviceOption = None,
    architecture: ArchitectureOption = None,
    compatibility_info: CompatibilityInfoOption = None,
    session_options: SessionOptionsOption = None,
    provider_options: ProviderOptionsOption = None,
    share_weights: ShareWeightsOption = False,
    share_as_assets: ShareAsAssetsOption = False,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
) -> int:
    """Copy a model file or folder into a package as a variant.

    What the flags leave open, the model's metadata says.
    """
    with copy_progress() as progress:
        info = add_variant(
            package,
            model,
            component=component,
            variant=variant,
            ep=ep,
            device=device,
            architecture=architecture,
            compatibility_info=compatibility_info,
            session_options=parse_options("--session-option", session_options),
            provider_options=parse_options("--provider-option", provider_options),
            share_weights="shared-assets" if share_as_assets else share_weights,
            force=force,
            operations=operations_for(dry_run),
            progress=progress,
            notify=output.warning,
            on_note=output.note,
        )
    if output.is_json:
        output.json("package", package_json(info))
    else:
        output.note(f"added {_added(info, component)} to {package}")
    return ExitCode.DONE


def _added(info: PackageInfo, component: str | None) -> str:
    # Without a name it is the only component: the package had one, or has one now.
    extended = next(item for item in info.components if component in {None, item.name})
    variant = extended.variants[-1]
    needs = (variant.constraints.ep or "any EP", variant.constraints.device)
    return f"{extended.name}/{variant.name} ({', '.join(filter(None, needs))})"
