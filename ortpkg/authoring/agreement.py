"""Compare the inputs and outputs of models that have to stand for each other.

A dimension may be fixed in one model and symbolic in the other: a caller who feeds that size can
use both. Two different fixed dimensions are fine for :func:`differences` too, since variants may be
tuned for different batches; ``validate`` warns of them, because no feed suits both. A type or rank
that a model does not state agrees with everything.
"""

from __future__ import annotations

from collections.abc import Sequence

from ortpkg.foundations.ep_names import CPU_EP, stated_ep
from ortpkg.foundations.errors import quoted
from ortpkg.graph.model_signature import ModelSignature, ValueSignature
from ortpkg.machine.hardware import DeviceType
from ortpkg.package.package_info import Constraints


def comparable_constraints(constraints: Constraints) -> dict[str, str | None]:
    """Return the constraints of a variant in a form that is equal for equal requirements.

    The component generation has no architecture, and states no device for the CPU provider, which
    has only one.
    """
    ep = stated_ep(constraints.ep)
    is_cpu = ep == CPU_EP and constraints.device is None
    return {
        "ep": ep,
        "device": DeviceType.CPU.value if is_cpu else constraints.device,
        "architecture": constraints.architecture,
        "ep_compatibility_info": constraints.ep_compatibility_info,
    }


def differences(ours: ModelSignature, theirs: ModelSignature) -> list[str]:
    """Return the reasons why ``ours`` cannot stand for ``theirs``, a phrase each."""
    return [
        difference
        for kind, our_values, their_values in _pairs_of_lists(ours, theirs)
        for difference in _list_differences(kind, our_values, their_values)
    ]


def fixed_dimension_differences(ours: ModelSignature, theirs: ModelSignature) -> list[str]:
    """Return dimensions that both models fix, at different sizes, a phrase each.

    Call it for models without :func:`differences`.
    """
    return [
        f"{kind} {quoted(our.name)} has the fixed dimension {ours_size} at axis {axis}, not"
        f" {theirs_size}"
        for kind, our_values, their_values in _pairs_of_lists(ours, theirs)
        for our, their in zip(our_values, their_values, strict=False)
        for axis, (ours_size, theirs_size) in enumerate(
            zip(our.shape or (), their.shape or (), strict=False)
        )
        if isinstance(ours_size, int) and isinstance(theirs_size, int) and ours_size != theirs_size
    ]


def _pairs_of_lists(
    ours: ModelSignature, theirs: ModelSignature
) -> tuple[tuple[str, Sequence[ValueSignature], Sequence[ValueSignature]], ...]:
    return ("input", ours.inputs, theirs.inputs), ("output", ours.outputs, theirs.outputs)


def _list_differences(
    kind: str, ours: Sequence[ValueSignature], theirs: Sequence[ValueSignature]
) -> list[str]:
    our_names, their_names = [value.name for value in ours], [value.name for value in theirs]
    if our_names != their_names:
        reason = (
            "in another order" if sorted(our_names) == sorted(their_names) else "under other names"
        )
        return [
            f"its {kind}s come {reason}: {_listed(our_names)} instead of {_listed(their_names)}"
        ]
    phrases = []
    for our, their in zip(ours, theirs, strict=True):
        if our.type and their.type and our.type != their.type:
            phrases.append(
                f"{kind} {quoted(our.name)} has the type {quoted(our.type)} instead of"
                f" {quoted(their.type)}"
            )
        elif (
            our.shape is not None and their.shape is not None and len(our.shape) != len(their.shape)
        ):
            phrases.append(
                f"{kind} {quoted(our.name)} has the rank {len(our.shape)} instead of"
                f" {len(their.shape)}"
            )
    return phrases


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names)) or "none"
