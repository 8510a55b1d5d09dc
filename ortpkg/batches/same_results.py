"""Whether a mix of variants gives results that are near enough to each other."""

from __future__ import annotations

from collections.abc import Sequence

from ortpkg.batches.node_trial import NodeTrial
from ortpkg.batches.package_runner import ChosenVariant
from ortpkg.errors import UsageError


def verify_same_results(trials: Sequence[NodeTrial], tolerance: float) -> None:
    """UsageError where recorded errors of what nodes run differ by more than ``tolerance``.

    Or are not recorded; a component that runs as the same variant everywhere needs no record. The
    error of a variant is what ``ortpkg bench`` recorded on its node: the largest difference from
    the outputs that the package expects of its samples.
    """
    components = dict.fromkeys(each.component for trial in trials for each in trial.chosen)
    for component in components:
        found = [
            (trial, each)
            for trial in trials
            for each in trial.chosen
            if each.component == component
        ]
        if len({each.key for _, each in found}) > 1:
            _verify_component(component, found, tolerance)


def _verify_component(
    component: str, found: Sequence[tuple[NodeTrial, ChosenVariant]], tolerance: float
) -> None:
    errors = {}
    for trial, each in found:
        error = (trial.errors or {}).get(component)
        if error is None:
            raise UsageError(
                f"--same-results: {_mix(found)}, and of {each.text} no error is recorded on"
                f" {trial.node}: run ortpkg bench there, or name one variant by --variant"
            )
        errors[trial.node, each] = error
    (least_node, least), (most_node, most) = (
        min(errors, key=lambda key: errors[key]),
        max(errors, key=lambda key: errors[key]),
    )
    difference = errors[most_node, most] - errors[least_node, least]
    if difference > tolerance:
        raise UsageError(
            f"--same-results {tolerance:g}: {_mix(found)}, whose recorded errors differ by"
            f" {difference:.3g} ({most.text} on {most_node}: {errors[most_node, most]:.3g},"
            f" {least.text} on {least_node}: {errors[least_node, least]:.3g}); name one by"
            " --variant"
        )


def _mix(found: Sequence[tuple[NodeTrial, ChosenVariant]]) -> str:
    texts = dict.fromkeys(each.text for _, each in found)
    return f"component {found[0][1].component} would run as {' and as '.join(texts)}"
