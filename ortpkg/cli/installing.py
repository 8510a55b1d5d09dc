"""Options and output that the commands which fetch packages share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ortpkg.cli.rendering import Output, nbytes_text
from ortpkg.distribution.variant_choice import InstallWishes
from ortpkg.foundations.errors import quoted

if TYPE_CHECKING:
    from ortpkg.distribution.installation import InstallPlan


def wishes_of_command(options: Mapping[str, Any], *, samples: bool) -> InstallWishes:
    """Return what a command needs of a package, from the options that it shares with others."""
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
    """Print what is going to be fetched, and why."""
    source = plan.fetched.source
    output.note(f"{plan.name}: {source.reference}, {source.digest}")
    for acceptance in plan.vouching.acceptances:
        output.note(f"  signed by {quoted(acceptance.signer.name)} ({acceptance.where})")
    for choice in plan.choices:
        output.note(f"  {choice.name} {choice.why}")
        for text in choice.trust_notes:
            output.warning(text)
    here = f"{nbytes_text(plan.nbytes)} of {nbytes_text(plan.full_nbytes)}"
    moving = nbytes_text(plan.moving_nbytes) if plan.missing else "nothing"
    output.note(f"  needs {here}, of which {moving} is to be fetched")


def plan_json(plan: InstallPlan) -> dict[str, Any]:
    """Return a plan as JSON."""
    source = plan.fetched.source
    return {
        "name": plan.name,
        "reference": source.reference,
        "tag": source.tag,
        "digest": source.digest,
        "variants": [
            {"component": item.component, "variant": item.variant, "why": item.why}
            for item in plan.choices
        ],
        "nbytes": plan.nbytes,
        "full_nbytes": plan.full_nbytes,
        "missing_nbytes": plan.moving_nbytes,
        "signatures": [
            {"signer": item.signer.name, "signature": item.where}
            for item in plan.vouching.acceptances
        ],
    }
