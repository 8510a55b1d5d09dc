"""Options of the commands that fetch packages, and their :class:`InstallWishes`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

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


def wishes_of(
    profile: ProfilesOption = None,
    variant: VariantsOption = None,
    component: ComponentsOption = None,
    ep: InstallEpOption = None,
    device: InstallDeviceOption = None,
    all_variants: AllVariantsOption = False,
    samples: SamplesOption = False,
    trust: InstallTrustOption = False,
) -> InstallWishes:
    """Return the wishes that the options of a command express."""
    return InstallWishes(
        profiles=tuple(profile or ()),
        variants=tuple(variant or ()),
        components=tuple(component or ()),
        ep=ep,
        device=device,
        all_variants=all_variants,
        samples=samples,
        trust=trust,
    )


def takes_wishes(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command the options of :func:`wishes_of` in place of its parameter ``wishes``."""
    options = inspect.signature(wishes_of, eval_str=True).parameters

    @functools.wraps(command)
    def with_options(*arguments: Any, **values: Any) -> int:
        given_options = {name: values.pop(name) for name in options if name in values}
        return command(*arguments, wishes=wishes_of(**given_options), **values)

    signature = inspect.signature(command, eval_str=True)
    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        if parameter.name == "wishes":
            parameters += [option.replace(kind=parameter.kind) for option in options.values()]
        else:
            parameters.append(parameter)
    described: Any = with_options
    described.__signature__ = signature.replace(parameters=parameters)
    return with_options
