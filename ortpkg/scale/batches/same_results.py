"""Check that a mix of variants gives results that are close enough to each other."""

from __future__ import annotations

from collections.abc import Sequence

from ortpkg.foundations.errors import UsageError
from ortpkg.scale.batches.node_trial import NodeTrial
from ortpkg.scale.batches.package_runner import ChosenVariant


def verify_same_results(trials: Sequence[NodeTrial], tolerance: float) -> None:
    """Raise UsageError if recorded errors of the nodes' variants differ by more than ``tolerance``.

    It is also an error if they are not recorded, unless a component runs as the same variant
    everywhere. A variant's error is what ``ortpkg bench`` recorded on its node: the largest
    difference from the expected outputs of the package's samples.
    """
    components = dict.fromkeys(variant.component for trial in trials for variant in trial.chosen)
    for component in components:
        pairs = [
            (trial, variant)
            for trial in trials
            for variant in trial.chosen
            if variant.component == component
        ]
        if len({variant.key for _, variant in pairs}) > 1:
            _verify_component(component, pairs, tolerance)


def _verify_component(
    component: str, pairs: Sequence[tuple[NodeTrial, ChosenVariant]], tolerance: float
) -> None:
    errors = {}
    for trial, variant in pairs:
        error = (trial.errors or {}).get(component)
        if error is None:
            raise UsageError(
                f"--same-results: {_mix(pairs)}, and of {variant.text} no error is recorded on"
                f" {trial.node}: run ortpkg bench there, or name one variant by --variant"
            )
        errors[trial.node, variant] = error
    (least_node, least), (most_node, most) = (
        min(errors, key=lambda key: errors[key]),
        max(errors, key=lambda key: errors[key]),
    )
    difference = errors[most_node, most] - errors[least_node, least]
    if difference > tolerance:
        raise UsageError(
            f"--same-results {tolerance:g}: {_mix(pairs)}, whose recorded errors differ by"
            f" {difference:.3g} ({most.text} on {most_node}: {errors[most_node, most]:.3g},"
            f" {least.text} on {least_node}: {errors[least_node, least]:.3g}); name one by"
            " --variant"
        )


def _mix(pairs: Sequence[tuple[NodeTrial, ChosenVariant]]) -> str:
    texts = dict.fromkeys(variant.text for _, variant in pairs)
    return f"component {pairs[0][1].component} would run as {' and as '.join(texts)}"
