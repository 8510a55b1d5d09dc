"""What the commands share that bring packages into the store: wishes, and what is said of plans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ortpkg.cli.rendering import Output, nbytes_text
from ortpkg.distribution.variant_choice import InstallWishes
from ortpkg.errors import quoted

if TYPE_CHECKING:
    from ortpkg.distribution.installation import InstallPlan


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
