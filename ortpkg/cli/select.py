"""``ortpkg select``: which variant, and why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from ortpkg.api.model_package import ModelPackage
from ortpkg.cli.comparison import print_comparison
from ortpkg.cli.parameters import (
    CompatOption,
    ComponentOption,
    DeviceOption,
    EpOption,
    JsonOption,
    PackageArgument,
    PolicyOption,
    VariantOption,
)
from ortpkg.cli.rendering import Output
from ortpkg.errors import ExitCode
from ortpkg.selection.explain import Explanation, Status, ep_device_label, explain, selection_to_json
from ortpkg.selection.selector import no_suitable_variant_message
from ortpkg.selection.verdict import Selection

_STYLES = {
    Status.SELECTED: "bold green",
    Status.ELIGIBLE: "cyan",
    Status.REJECTED: "red",
    Status.WARNING: "yellow",
    Status.PLAIN: "",
}


def command(
    package: PackageArgument,
    component: ComponentOption = None,
    device: DeviceOption = None,
    ep: EpOption = None,
    policy: PolicyOption = "default",
    variant: VariantOption = None,
    check_architecture: Annotated[
        bool, typer.Option("--check-architecture", help="Evaluate architecture constraints too.")
    ] = False,
    show_reasons: Annotated[
        bool, typer.Option("--explain", help="Every variant on every device, with reasons.")
    ] = False,
    compare: Annotated[
        bool, typer.Option("--compare", help="Show beside it what onnxruntime 1.27 and 1.31 would select.")
    ] = False,
    compat: CompatOption = None,
    as_json: JsonOption = False,
) -> int:
    """Choose the best variant for this machine: of one component, or of each where none is named."""
    output = Output(is_json=as_json)
    opened = ModelPackage(package, compat=compat)
    names = [component] if component is not None else [each.name for each in opened.component_models]
    if compare:
        wishes = {"device": device, "policy": policy, "variant": variant, "check_architecture": check_architecture}
        return print_comparison(opened, names, [name for name in (ep or "").split(",") if name], wishes, output)
    selections = [
        opened.select(name, device=device, ep=ep, policy=policy, variant=variant, check_architecture=check_architecture)
        for name in names
    ]
    if as_json:
        output.json("selection", {"selections": [selection_to_json(selection) for selection in selections]})
    for selection in selections if not as_json else ():
        _print_selection(selection, output, show_reasons=show_reasons)
    if any(selection.best is None for selection in selections) or not selections:
        return ExitCode.NO_SUITABLE_VARIANT
    return ExitCode.DONE


def _print_selection(selection: Selection, output: Output, *, show_reasons: bool) -> None:
    if show_reasons:
        for text, style in _tree_lines(explain(selection)):
            output.line(text, style=style)
        return
    if selection.best is None:
        output.note(no_suitable_variant_message(selection), style="red")
        return
    best = selection.best
    output.line(f"{selection.component_name}: {best.variant.name} on {ep_device_label(best.ep_device)}", style="bold")
    output.line(f"  {best.variant.model_path or best.variant.directory}")
    if selection.ties:
        output.warning(f"declaration order alone put it before {', '.join(selection.ties)}")
    for warning in selection.warnings:
        output.warning(warning)


def _tree_lines(node: Explanation, lead: str = "", follow: str = "") -> Iterator[tuple[str, str]]:
    """The lines of a tree with branches drawn, each with its style."""
    code = f"{node.code}  " if node.code else ""
    yield f"{lead}{code}{node.label}", _STYLES[node.status]
    for place, child in enumerate(node.children):
        is_last = place == len(node.children) - 1
        branch, trunk = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
        yield from _tree_lines(child, follow + branch, follow + trunk)
