"""``ortpkg select --compare``: our selection next to those of onnxruntime's releases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ortpkg.cli.rendering import Output
from ortpkg.cli.table_layout import Column
from ortpkg.foundations.ep_names import short_ep_names
from ortpkg.foundations.errors import ExitCode
from ortpkg.selection.matching.explanation import selection_to_json
from ortpkg.selection.matching.reasons import ep_device_label, main_verdict

if TYPE_CHECKING:
    from ortpkg.api.model_package import ModelPackage
    from ortpkg.api.release_comparison import ComparedChoice
    from ortpkg.selection.matching.wishes import SelectionWishes

_COLUMNS = (
    Column("component"),
    Column("policy"),
    Column("asked for", drops=1, wraps=12, short=short_ep_names),
    Column("variant"),
    Column(""),
    Column("remark", wraps=20, short=short_ep_names),
)


def print_comparison(
    package: ModelPackage,
    components: Sequence[str],
    eps: Sequence[str],
    wishes: SelectionWishes,
    output: Output,
) -> int:
    """Print the selections for each component, and return the exit code of ours.

    Args:
        package: The package.
        components: Names of its components.
        eps: Execution providers that an application requests.
        wishes: Options of our selection, as in ``ModelPackage.select``.
        output: Output for a table, or JSON.
    """
    from ortpkg.api.release_comparison import (
        compare_with_releases,  # the rules of releases are seldom needed
    )

    choices_by_name = {
        name: compare_with_releases(package, name, wishes, eps=eps) for name in components
    }
    if output.is_json:
        comparisons = [
            {"component": name, "choices": list(map(_json, choices_by_name[name]))}
            for name in components
        ]
        output.json("comparison", {"comparisons": comparisons})
    else:
        rows = [(name, *_row(choice)) for name in components for choice in choices_by_name[name]]
        output.table(_COLUMNS, rows)
    has_none = not choices_by_name or any(
        choices[0].selection.best is None for choices in choices_by_name.values()
    )
    return ExitCode.NO_SUITABLE_VARIANT if has_none else ExitCode.DONE


def _row(choice: ComparedChoice) -> tuple[str, ...]:
    selection = choice.selection
    best = selection.best
    return (
        selection.policy,
        ", ".join(choice.eps),
        "none" if best is None else best.variant.name,
        "" if choice.agrees else "differs",
        _remark(choice),
    )


def _remark(choice: ComparedChoice) -> str:
    selection = choice.selection
    if selection.unpredictable:
        return f"unpredictable: any of {', '.join(selection.unpredictable)}"
    if selection.best is not None:
        return ep_device_label(selection.best.ep_device)
    if not selection.verdicts:
        return "the component has no variants"
    farthest = main_verdict(selection.verdicts)
    return f"{farthest.variant.name}: {farthest.code}: {farthest.reason}"


def _json(choice: ComparedChoice) -> dict[str, Any]:
    best = choice.selection.best
    return {
        "policy": choice.selection.policy,
        "eps": list(choice.eps),
        "variant": None if best is None else best.variant.name,
        "unpredictable": list(choice.selection.unpredictable),
        "agrees": choice.agrees,
        "selection": selection_to_json(choice.selection),
    }
