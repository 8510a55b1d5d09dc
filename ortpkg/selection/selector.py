"""Select a variant: judge every variant on every EP device, rank what is eligible, say why. Pure; opens no file.

Selection is a policy of its own, apart from the package (K16): what it needs comes in as arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ortpkg.devices.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.devices.labels import hardware_label
from ortpkg.ep_names import CPU_EP, is_known_ep, resolve_ep_name, suggest_ep_name
from ortpkg.errors import UsageError, quoted
from ortpkg.package.package_info import ComponentInfo, VariantInfo
from ortpkg.selection.matches_variant import (
    CompatibilityOf,
    Judgement,
    MatchContext,
    Requirements,
    matches_variant,
    unavailable_ep,
)
from ortpkg.selection.policies import Policy, device_kind, find_policy
from ortpkg.selection.ranking import TIE_LENGTH, deciding_criterion, order_devices, rank_of
from ortpkg.selection.verdict import ReasonCode, Selection, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """A variant on an EP device, judged, with its rank if it is eligible."""

    variant: VariantInfo
    ep_device: EpDevice | None
    judgement: Judgement
    rank: tuple[int, ...] | None


def select_variant(
    component: ComponentInfo,
    ep_devices: Sequence[EpDevice],
    *,
    hardware: Sequence[HardwareDevice],
    compatibility: CompatibilityOf,
    policy: str = "default",
    device: str | None = None,
    ep: str | None = None,
    check_architecture: bool = False,
    notes: Sequence[str] = (),
) -> Selection:
    """The best variant of ``component`` on what the machine offers, and a verdict on everything else (K12).

    Args:
        component: the component model.
        ep_devices: what the execution providers offer; their order does not matter.
        hardware: what the machine has, for reasons and for EPs that report no devices.
        compatibility: an EP's rating of a compatibility string; where it raises, the string counts as not applicable.
        policy: a name of ``policies.POLICIES``.
        device, ep: filters; an EP may be an alias.
        check_architecture: evaluate architecture constraints too.
        notes: what discovery could not find out; carried into the warnings.

    Raises UsageError for an unknown policy, device or EP. That nothing fits is no error: ``best`` is then None.
    """
    chosen_policy = find_policy(policy)
    context = MatchContext(
        ep_devices=tuple(order_devices(ep_devices, chosen_policy, hardware)),
        hardware=tuple(hardware),
        compatibility=compatibility,
        device=None if device is None else _device_type(device),
        ep=None if ep is None else _ep_name(ep, component, ep_devices),
        check_architecture=check_architecture,
    )
    candidates = list(_judge_all(component.variants, context, chosen_policy))
    eligible = sorted(
        (candidate for candidate in candidates if candidate.rank is not None), key=lambda found: found.rank or ()
    )
    rejected = [candidate for candidate in candidates if candidate.rank is None]
    winner = eligible[0] if eligible else None
    verdicts = [_eligible_verdict(candidate, winner) for candidate in eligible if winner is not None]
    return Selection(
        component_name=component.name,
        policy=chosen_policy.name,
        verdicts=(*verdicts, *map(_rejection, rejected)),
        best=verdicts[0] if verdicts else None,
        device=None if context.device is None else context.device.value,
        ep=context.ep,
        ties=_ties(eligible),
        hardware=context.hardware,
        ep_devices=context.ep_devices,
        warnings=(*notes, *_coverage_warnings(component)),
    )


def no_suitable_variant_message(selection: Selection) -> str:
    """What to say where nothing was selected: what was asked for, what the machine has, why each variant fell."""
    asked = [f"policy {selection.policy}"]
    asked += [f"device {selection.device}"] if selection.device else []
    asked += [f"ep {selection.ep}"] if selection.ep else []
    eps = ", ".join(dict.fromkeys(ep_device.ep_name for ep_device in selection.ep_devices))
    lines = [
        f"no variant of component {quoted(selection.component_name)} fits this machine (asked for: {', '.join(asked)})",
        f"  the machine has: {', '.join(map(hardware_label, selection.hardware)) or 'no known devices'}",
        f"  execution providers: {eps or 'none'}",
    ]
    lines += [f"  {quoted(name)}: {reason}" for name, reason in _main_reasons(selection)]
    return "\n".join(lines if selection.verdicts else [*lines, "  it has no variants"])


def main_verdict(verdicts: Sequence[Verdict]) -> Verdict:
    """Of one variant's verdicts (at least one), the one that says most: the best rank, else the farthest rejection."""
    eligible = [verdict for verdict in verdicts if verdict.rank is not None]
    if eligible:
        return min(eligible, key=lambda verdict: verdict.rank or ())
    return max(verdicts, key=lambda verdict: _PROGRESS[verdict.code])


#: How far a rejected variant came; the rejection that came farthest tells a person most.
_PROGRESS: dict[ReasonCode, int] = {
    code: position
    for position, code in enumerate(
        (
            ReasonCode.EP_NOT_AVAILABLE,
            ReasonCode.EP_MISMATCH,
            ReasonCode.EP_NOT_REQUESTED,
            ReasonCode.DEVICE_MISMATCH,
            ReasonCode.DEVICE_NOT_PRESENT,
            ReasonCode.DEVICE_NOT_REQUESTED,
            ReasonCode.PROVIDER_OPTION_DEVICE_CONFLICT,
            ReasonCode.COMPILED_MODEL_UNSUPPORTED,
            ReasonCode.ARCHITECTURE_MISMATCH,
            ReasonCode.LOWER_RANK,
            ReasonCode.SELECTED,
        )
    )
}


def _main_reasons(selection: Selection) -> Iterable[tuple[str, str]]:
    by_variant: dict[str, list[Verdict]] = {}
    for verdict in selection.verdicts:
        by_variant.setdefault(verdict.variant.name, []).append(verdict)
    for name, verdicts in by_variant.items():
        verdict = main_verdict(verdicts)
        yield name, f"{verdict.code}: {verdict.reason}"


# --- judging ---------------------------------------------------------------------------------------------------------


def _judge_all(variants: Sequence[VariantInfo], context: MatchContext, policy: Policy) -> Iterable[_Candidate]:
    """Every variant × EP device in declaration order; equal requirements are judged once."""
    preferences = [policy.preference(device_kind(ep_device, context.hardware)) for ep_device in context.ep_devices]
    judged: dict[Requirements, list[tuple[EpDevice | None, Judgement]]] = {}
    for declared_at, variant in enumerate(variants):
        requirements = Requirements.of(variant)
        if requirements not in judged:
            judged[requirements] = _judge(requirements, context)
        for ep_device_at, (ep_device, judgement) in enumerate(judged[requirements]):
            rank = None
            if judgement.code is None and ep_device is not None:
                rank = rank_of(
                    device_preference=preferences[ep_device_at],
                    compatibility=judgement.compatibility,
                    names_ep=requirements.ep is not None,
                    backend=ep_device.backend,
                    declared_at=declared_at,
                    ep_device_at=ep_device_at,
                )
            yield _Candidate(variant=variant, ep_device=ep_device, judgement=judgement, rank=rank)


def _judge(requirements: Requirements, context: MatchContext) -> list[tuple[EpDevice | None, Judgement]]:
    unavailable = unavailable_ep(requirements, context)
    if unavailable is not None:
        return [(None, unavailable)]
    return [(ep_device, matches_variant(requirements, ep_device, context)) for ep_device in context.ep_devices]


# --- verdicts --------------------------------------------------------------------------------------------------------


def _rejection(candidate: _Candidate) -> Verdict:
    judgement = candidate.judgement
    assert judgement.code is not None
    return Verdict(
        variant=candidate.variant,
        ep_device=candidate.ep_device,
        code=judgement.code,
        reason=judgement.reason,
        compatibility=judgement.compatibility,
        notes=judgement.notes,
    )


def _eligible_verdict(candidate: _Candidate, winner: _Candidate) -> Verdict:
    is_winner = candidate is winner
    decided_by = None
    reason = "it is the best of all that can run here"
    if not is_winner:
        assert candidate.rank is not None
        assert winner.rank is not None
        decided_by = deciding_criterion(candidate.rank, winner.rank)
        reason = _lower_rank_reason(candidate, winner, decided_by)
    return Verdict(
        variant=candidate.variant,
        ep_device=candidate.ep_device,
        code=ReasonCode.SELECTED if is_winner else ReasonCode.LOWER_RANK,
        reason=reason,
        compatibility=candidate.judgement.compatibility,
        rank=candidate.rank,
        decided_by=decided_by,
        notes=candidate.judgement.notes,
    )


def _lower_rank_reason(candidate: _Candidate, winner: _Candidate, decided_by: str) -> str:
    """One sentence on why ``winner`` was preferred."""
    assert candidate.ep_device is not None
    assert winner.ep_device is not None
    which = "it" if candidate.variant is winner.variant else quoted(winner.variant.name)
    explanations = {
        "device": "{which} runs on {won}, which the policy prefers",
        "compatibility": "{which} is rated {rating} by its EP, this one {own_rating}",
        "named EP": "{which} names its execution provider, this one runs on any",
        "backend": "{which} runs on backend {backend}, which is known to be faster",
        "declaration order": "{which} ranks the same and is declared first",
        "EP device order": "{which} runs on {won} ({ep}), which comes first in the order of EP devices",
    }
    return "it can run, but " + explanations[decided_by].format(
        which=which,
        won=device_kind(winner.ep_device).value,
        rating=winner.judgement.compatibility.value,
        own_rating=candidate.judgement.compatibility.value,
        backend=winner.ep_device.backend,
        ep=winner.ep_device.ep_name,
    )


def _ties(eligible: Sequence[_Candidate]) -> tuple[str, ...]:
    """Names of the other variants whose rank differs from the winner's only by declaration order."""
    if not eligible:
        return ()
    winner = eligible[0]
    assert winner.rank is not None
    best = winner.rank[:TIE_LENGTH]
    tied = (
        candidate.variant.name
        for candidate in eligible
        if candidate.rank is not None
        and candidate.rank[:TIE_LENGTH] == best
        and candidate.variant is not winner.variant
    )
    return tuple(dict.fromkeys(tied))


def _coverage_warnings(component: ComponentInfo) -> tuple[str, ...]:
    """A package without a variant for a bare CPU leaves machines without accelerators with nothing."""
    if any(_covers_cpu(variant) for variant in component.variants):
        return ()
    return (
        f"no variant of component {quoted(component.name)} covers a CPU: nothing fits a machine without accelerators",
    )


def _covers_cpu(variant: VariantInfo) -> bool:
    requirements = Requirements.of(variant)
    return requirements.device == "cpu" or (requirements.device is None and requirements.ep in {None, CPU_EP})


# --- the caller's words ----------------------------------------------------------------------------------------------


def _device_type(text: str) -> DeviceType:
    try:
        return DeviceType(text.lower())
    except ValueError:
        known = ", ".join(device.value for device in DeviceType)
        raise UsageError(f"there is no device type {quoted(text)}; known are: {known}") from None


def _ep_name(text: str, component: ComponentInfo, ep_devices: Sequence[EpDevice]) -> str:
    """The full name; a name that nobody knows, neither ONNX Runtime nor the machine nor the package, is a typo."""
    name = resolve_ep_name(text)
    named = {variant.constraints.ep for variant in component.variants} | {device.ep_name for device in ep_devices}
    if is_known_ep(name) or name in named:
        return name
    suggestion = suggest_ep_name(text, tuple(sorted(known for known in named if known)))
    hint = f"; did you mean {suggestion!r}?" if suggestion else ""
    raise UsageError(f"there is no execution provider {quoted(text)}{hint}")
