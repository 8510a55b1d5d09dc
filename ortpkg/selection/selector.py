"""Select a variant: judge every variant on every EP device, rank what is eligible, say why. Pure; opens no file.

Selection is a policy of its own, apart from the package (K16): what it needs comes in as arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from ortpkg.devices.hardware import EpDevice, HardwareDevice
from ortpkg.devices.labels import hardware_label
from ortpkg.ep_names import CPU_EP
from ortpkg.errors import quoted
from ortpkg.package.package_info import ComponentInfo, VariantInfo
from ortpkg.selection.lazy_verdicts import LazyVerdicts
from ortpkg.selection.matches_variant import (
    CompatibilityOf,
    Judgement,
    MatchContext,
    Requirements,
    matches_variant,
    unavailable_ep,
)
from ortpkg.selection.policies import Policy, device_kind, find_policy
from ortpkg.selection.provider_option_devices import device_option_of
from ortpkg.selection.ranking import CRITERIA, TIE_LENGTH, deciding_criterion, order_devices, standing_of
from ortpkg.selection.verdict import ReasonCode, Selection, Verdict
from ortpkg.selection.wishes import device_type_named, ep_named


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """What the rules say of requirements on one EP device; ``standing`` is the rank's beginning, None if rejected."""

    ep_device: EpDevice | None
    ep_device_at: int
    judgement: Judgement
    standing: tuple[int, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Variants that require the same, by their positions in the package: they are judged once."""

    requirements: Requirements
    outcomes: tuple[_Outcome, ...]
    members: list[int] = field(default_factory=list)


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
        device=None if device is None else device_type_named(device),
        ep=None if ep is None else ep_named(ep, _names_of(component, ep_devices)),
        check_architecture=check_architecture,
    )
    variants = component.variants
    groups = _judge_all(variants, context, chosen_policy)
    winner = _winner(variants, groups)
    best = None if winner is None else _eligible_verdict(winner, winner)
    return Selection(
        component_name=component.name,
        policy=chosen_policy.name,
        verdicts=LazyVerdicts(partial(_all_verdicts, variants, groups, winner, best)),
        criteria=CRITERIA,
        best=best,
        device=None if context.device is None else context.device.value,
        ep=context.ep,
        ties=() if winner is None else _ties(variants, groups, winner),
        hardware=context.hardware,
        ep_devices=context.ep_devices,
        warnings=(*notes, *_coverage_warnings(component, groups)),
    )


def _names_of(component: ComponentInfo, ep_devices: Sequence[EpDevice]) -> set[str]:
    """The execution providers that the package or the machine names."""
    named = {variant.constraints.ep for variant in component.variants} | {device.ep_name for device in ep_devices}
    return {name for name in named if name}


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
            ReasonCode.PACKAGE_REFUSED,
            ReasonCode.NO_EP_GIVEN,
            ReasonCode.EP_NOT_AVAILABLE,
            ReasonCode.EP_UNSET,
            ReasonCode.EP_MISMATCH,
            ReasonCode.EP_NOT_REQUESTED,
            ReasonCode.DEVICE_MISMATCH,
            ReasonCode.DEVICE_NOT_PRESENT,
            ReasonCode.DEVICE_NOT_REQUESTED,
            ReasonCode.PROVIDER_OPTION_DEVICE_CONFLICT,
            ReasonCode.COMPATIBILITY_CHECK_FAILED,
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


def _judge_all(variants: Sequence[VariantInfo], context: MatchContext, policy: Policy) -> list[_Group]:
    """Every variant × EP device, by groups of variants that require the same."""
    preferences = [policy.preference(device_kind(ep_device, context.hardware)) for ep_device in context.ep_devices]
    groups: dict[tuple[object, ...], _Group] = {}
    for declared_at, variant in enumerate(variants):
        stated = variant.constraints
        option = device_option_of(variant) if variant.provider_options else None
        key = (stated.ep, stated.device, stated.architecture, stated.ep_compatibility_info, option)
        group = groups.get(key)
        if group is None:
            requirements = Requirements.of(variant)
            outcomes = tuple(_outcomes(requirements, context, preferences))
            group = groups[key] = _Group(requirements=requirements, outcomes=outcomes)
        group.members.append(declared_at)
    return list(groups.values())


def _outcomes(requirements: Requirements, context: MatchContext, preferences: Sequence[int]) -> Iterable[_Outcome]:
    for ep_device_at, (ep_device, judgement) in enumerate(_judge(requirements, context)):
        standing = None
        if judgement.code is None and ep_device is not None:
            standing = standing_of(
                device_preference=preferences[ep_device_at],
                compatibility=judgement.compatibility,
                names_ep=requirements.ep is not None,
                backend=ep_device.backend,
            )
        yield _Outcome(ep_device=ep_device, ep_device_at=ep_device_at, judgement=judgement, standing=standing)


def _winner(variants: Sequence[VariantInfo], groups: Sequence[_Group]) -> _Candidate | None:
    """The best of all; only the first variant of a group can be it."""
    firsts = (
        candidate
        for group in groups
        for candidate in _candidates_of(variants, group, group.members[0])
        if candidate.rank is not None
    )
    return min(firsts, key=lambda candidate: candidate.rank or (), default=None)


def _candidates_of(variants: Sequence[VariantInfo], group: _Group, declared_at: int) -> Iterable[_Candidate]:
    for outcome in group.outcomes:
        rank = None if outcome.standing is None else (*outcome.standing, declared_at, outcome.ep_device_at)
        yield _Candidate(
            variant=variants[declared_at], ep_device=outcome.ep_device, judgement=outcome.judgement, rank=rank
        )


def _judge(requirements: Requirements, context: MatchContext) -> list[tuple[EpDevice | None, Judgement]]:
    unavailable = unavailable_ep(requirements, context)
    if unavailable is not None:
        return [(None, unavailable)]
    return [(ep_device, matches_variant(requirements, ep_device, context)) for ep_device in context.ep_devices]


# --- verdicts --------------------------------------------------------------------------------------------------------


def _all_verdicts(
    variants: Sequence[VariantInfo], groups: Sequence[_Group], winner: _Candidate | None, best: Verdict | None
) -> tuple[Verdict, ...]:
    """Best first; rejections after, in declaration order."""
    group_of = {declared_at: group for group in groups for declared_at in group.members}
    candidates = [
        candidate
        for declared_at in range(len(variants))
        for candidate in _candidates_of(variants, group_of[declared_at], declared_at)
    ]
    rejections = (_rejection(candidate) for candidate in candidates if candidate.rank is None)
    if winner is None or best is None:
        return tuple(rejections)
    eligible = sorted((each for each in candidates if each.rank is not None), key=lambda each: each.rank or ())
    return (best, *(_eligible_verdict(candidate, winner) for candidate in eligible[1:]), *rejections)


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


def _ties(variants: Sequence[VariantInfo], groups: Sequence[_Group], winner: _Candidate) -> tuple[str, ...]:
    """Names of the other variants whose rank differs from the winner's only by declaration order."""
    assert winner.rank is not None
    best = winner.rank[:TIE_LENGTH]
    tied = (
        declared_at
        for group in groups
        if any(outcome.standing == best for outcome in group.outcomes)
        for declared_at in group.members
    )
    return tuple(
        variants[declared_at].name for declared_at in sorted(tied) if variants[declared_at] is not winner.variant
    )


def _coverage_warnings(component: ComponentInfo, groups: Sequence[_Group]) -> tuple[str, ...]:
    """A package without a variant for a bare CPU leaves machines without accelerators with nothing."""
    if any(_covers_cpu(group.requirements) for group in groups):
        return ()
    return (
        f"no variant of component {quoted(component.name)} covers a CPU: nothing fits a machine without accelerators",
    )


def _covers_cpu(requirements: Requirements) -> bool:
    return requirements.device == "cpu" or (requirements.device is None and requirements.ep in {None, CPU_EP})
