"""``ortpkg diff``: shows the differences between two packages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ortpkg.authoring.diff import PackageDiff, VariantDiff, diff
from ortpkg.authoring.model_diff import Change, ModelDiff, Weight, WeightChange
from ortpkg.cli.load_limits import LoadLimits, end_at_limits
from ortpkg.cli.package_argument import Use, package_parser
from ortpkg.cli.progress import copy_progress
from ortpkg.cli.rendering import Output, nbytes_text
from ortpkg.foundations.errors import ExitCode

#: Most weights of a variant that are shown one by one; --json has all.
_MOST_SHOWN_WEIGHTS = 20


OldArgument = Annotated[
    Path,
    typer.Argument(
        metavar="OLD",
        help="A package (a folder, a name in the store, oci://...), packed, or an ONNX file.",
        parser=package_parser(Use.READ_ALL),
    ),
]
NewArgument = Annotated[
    Path,
    typer.Argument(
        metavar="NEW", help="The package to compare it with.", parser=package_parser(Use.READ_ALL)
    ),
]


def command(
    output: Output,
    old: OldArgument,
    new: NewArgument,
    *,
    limits: LoadLimits,
) -> int:
    """Show what two packages differ in: components, variants, needs, operators, weights, bytes.

    The format, where files lie and how weights are packed make no difference. The exit code is 0
    where nothing differs, 1 where something does.
    """
    with end_at_limits(limits, output), copy_progress() as progress:
        package_diff = diff(old, new, progress=progress)
    if output.is_json:
        output.json("diff", _diff_json(package_diff))
    else:
        _print_diff(package_diff, output)
    return ExitCode.DONE if package_diff.is_equal else ExitCode.FINDINGS


def _print_diff(package_diff: PackageDiff, output: Output) -> None:
    for change in package_diff.facts:
        output.line(_change_line(change))
    for name in package_diff.components_removed:
        output.line(f"- component {name}", style="red")
    for name in package_diff.components_added:
        output.line(f"+ component {name}", style="green")
    for component, variant in package_diff.variants_removed:
        output.line(f"- variant {component}/{variant}", style="red")
    for component, variant in package_diff.variants_added:
        output.line(f"+ variant {component}/{variant}", style="green")
    for changed in package_diff.variants_changed:
        _print_variant(changed, output)
    for line in _file_lines(package_diff.files):
        output.line(line)
    if (
        package_diff.old_format
        and package_diff.new_format
        and package_diff.old_format != package_diff.new_format
    ):
        output.note(f"format: {package_diff.old_format} and {package_diff.new_format}")
    output.note(f"size: {_sizes_text(package_diff.old_nbytes, package_diff.new_nbytes)}")
    if package_diff.is_equal:
        output.note("no difference in meaning")


def _print_variant(variant: VariantDiff, output: Output) -> None:
    size = _sizes_text(variant.old_nbytes, variant.new_nbytes)
    output.line(f"~ variant {variant.component}/{variant.variant} ({size})", style="yellow")
    lines = [*map(_change_line, variant.facts), *_file_lines(variant.files)]
    if variant.model is not None:
        lines += _model_lines(variant.model)
    for line in lines:
        output.line(f"    {line}")


def _model_lines(model: ModelDiff) -> Iterator[str]:
    yield from map(_change_line, model.facts)
    for operator, (old, new) in model.operators.items():
        yield f"operator {operator}: {old} → {new}"
    if model.nodes_removed or model.nodes_added:
        yield f"nodes: {model.nodes_removed} removed, {model.nodes_added} added"
    if model.weights:
        yield f"weights: {len(model.weights)} differ, {model.equal_weights} are equal"
    for weight in model.weights[:_MOST_SHOWN_WEIGHTS]:
        yield f"  {_weight_line(weight)}"
    if len(model.weights) > _MOST_SHOWN_WEIGHTS:
        yield f"  ... and {len(model.weights) - _MOST_SHOWN_WEIGHTS} more"


def _weight_line(change: WeightChange) -> str:
    if change.old is None or change.new is None:
        present = change.new or change.old
        return f"{'+' if change.old is None else '-'} {change.name} {_weight_text(present)}"
    old, new = _weight_text(change.old), _weight_text(change.new)
    types = old if old == new else f"{old} → {new}"
    largest = (
        "" if change.largest_difference is None else f", max |Δ| {change.largest_difference:.6g}"
    )
    return f"~ {change.name} {types}{largest}"


def _weight_text(weight: Weight | None) -> str:
    return "" if weight is None else f"{weight.type}[{', '.join(map(str, weight.shape))}]"


def _file_lines(files: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    for name, (old, new) in files.items():
        yield f"{'+' if not old else '-' if not new else '~'} file {name}"


def _change_line(change: Change) -> str:
    return f"{change.what}: {_value_text(change.old)} → {_value_text(change.new)}"


def _value_text(value: Any) -> str:
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _sizes_text(old_nbytes: int, new_nbytes: int) -> str:
    if old_nbytes == new_nbytes:
        return nbytes_text(old_nbytes)
    return f"{nbytes_text(old_nbytes)} → {nbytes_text(new_nbytes)}"


def _diff_json(package_diff: PackageDiff) -> dict[str, Any]:
    content = {"equal": package_diff.is_equal, **asdict(package_diff)}
    for key in ("variants_removed", "variants_added"):
        content[key] = [
            {"component": component, "variant": variant} for component, variant in content[key]
        ]
    for holder in (content, *content["variants_changed"]):
        holder["files"] = [
            {"file": name, "old": old, "new": new} for name, (old, new) in holder["files"].items()
        ]
    for variant in content["variants_changed"]:
        if variant["model"] is not None:
            pairs = variant["model"]["operators"].items()
            variant["model"]["operators"] = [
                {"operator": name, "old": old, "new": new} for name, (old, new) in pairs
            ]
    return content
