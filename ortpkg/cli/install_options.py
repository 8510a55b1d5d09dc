"""Options of the commands that fetch packages, and their :class:`InstallWishes`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from ortpkg.cli.completion import complete_device, complete_ep
from ortpkg.cli.parameters import ProfilesOption
from ortpkg.distribution.variant_choice import InstallWishes

ReferencesArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="REF",
        help=(
            "oci://host[:port]/repository[:tag], oci-layout:FOLDER[:tag], a package's folder, or a"
            " packed file (name.ortpkg), here or at https://, s3://, gs://, az://, hf://."
        ),
    ),
]
InstallNameOption = Annotated[
    str | None,
    typer.Option(
        "--name", metavar="NAME", help="Name in the store; default: that of the repository."
    ),
]
VariantsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--variant",
        metavar="NAME",
        help="This variant, whatever would be chosen: VARIANT or COMPONENT/VARIANT. Repeatable.",
    ),
]
ComponentsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--component",
        "-c",
        metavar="NAME",
        help="Only this component model; default: all of them. Repeatable.",
    ),
]
AllVariantsOption = Annotated[bool, typer.Option("--all-variants", help="Take every variant.")]
InstallTrustOption = Annotated[
    bool,
    typer.Option("--trust", help="Also choose native code that only runs with --trust."),
]
SamplesOption = Annotated[bool, typer.Option("--samples", help="Take the package's samples, too.")]
InstallEpOption = Annotated[
    str | None,
    typer.Option(
        "--ep",
        metavar="EP",
        help="Only variants for this execution provider: cpu, openvino, ...",
        autocompletion=complete_ep,
    ),
]
InstallDeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="D",
        help="Only variants for this kind of device: cpu, gpu or npu.",
        autocompletion=complete_device,
    ),
]


@dataclass(frozen=True)
class InstallOptions:
    """Options that say which variants of a package are wanted."""

    profile: ProfilesOption = None
    variant: VariantsOption = None
    component: ComponentsOption = None
    ep: InstallEpOption = None
    device: InstallDeviceOption = None
    all_variants: AllVariantsOption = False
    samples: SamplesOption = False
    trust: InstallTrustOption = False

    def wishes(self) -> InstallWishes:
        """Return the wishes that the options express."""
        return InstallWishes(
            profiles=tuple(self.profile or ()),
            variants=tuple(self.variant or ()),
            components=tuple(self.component or ()),
            ep=self.ep,
            device=self.device,
            all_variants=self.all_variants,
            samples=self.samples,
            trust=self.trust,
        )
