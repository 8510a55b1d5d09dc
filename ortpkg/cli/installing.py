"""What the commands share that bring packages into the store: wishes, and what is said of plans."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ortpkg.cli.completion import complete_device, complete_ep
from ortpkg.cli.parameters import ProfilesOption
from ortpkg.cli.rendering import Output, nbytes_text
from ortpkg.distribution.variant_choice import InstallWishes
from ortpkg.errors import quoted

if TYPE_CHECKING:
    from ortpkg.distribution.installation import InstallPlan

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
    """Return the wishes that these options of a command state."""
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
        stated = {name: values.pop(name) for name in options if name in values}
        return command(*arguments, wishes=wishes_of(**stated), **values)

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


def wishes_of_command(options: Mapping[str, Any], *, samples: bool) -> InstallWishes:
    """What a command that uses a package needs of it, by the options that it shares with others."""
    variant, component = options.get("variant"), options.get("component")
    if isinstance(variant, str) and isinstance(component, str):
        variant = f"{component}/{variant}"
    return InstallWishes(
        profiles=tuple(options.get("profile") or ()),
        variants=(variant,) if isinstance(variant, str) else (),
        ep=options.get("ep"),
        device=options.get("device"),
        samples=samples,
        trust=options.get("trust") is True,
    )


def print_plan(plan: InstallPlan, output: Output) -> None:
    """Says what is going to be fetched, and why."""
    source = plan.fetched.source
    output.note(f"{plan.name}: {source.reference}, {source.digest}")
    for each in plan.vouching.acceptances:
        output.note(f"  signed by {quoted(each.signer.name)} ({each.where})")
    for choice in plan.choices:
        output.note(f"  {choice.name} {choice.why}")
        for text in choice.trust_notes:
            output.warning(text)
    here = f"{nbytes_text(plan.nbytes)} of {nbytes_text(plan.full_nbytes)}"
    moving = nbytes_text(plan.moving_nbytes) if plan.missing else "nothing"
    output.note(f"  needs {here}, of which {moving} is to be fetched")


def plan_json(plan: InstallPlan) -> dict[str, Any]:
    """A plan as JSON."""
    source = plan.fetched.source
    return {
        "name": plan.name,
        "reference": source.reference,
        "tag": source.tag,
        "digest": source.digest,
        "variants": [
            {"component": each.component, "variant": each.variant, "why": each.why}
            for each in plan.choices
        ],
        "nbytes": plan.nbytes,
        "full_nbytes": plan.full_nbytes,
        "missing_nbytes": plan.moving_nbytes,
        "signatures": [
            {"signer": each.signer.name, "signature": each.where}
            for each in plan.vouching.acceptances
        ],
    }
