"""Predict which variant an onnxruntime release would select on this machine, and why.

It answers for an application that asks for execution providers (EPs) in an order, as session
options do, not for one that leaves the choice to a policy of onnxruntime.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ortpkg.foundations.ep_names import CPU_EP, ep_named
from ortpkg.foundations.errors import quoted
from ortpkg.machine.hardware import EpDevice, HardwareDevice
from ortpkg.machine.policies import POLICIES
from ortpkg.package.package_info import ComponentInfo, Constraints, VariantInfo, until_nul
from ortpkg.selection.matching.ranking import deciding_criterion, order_devices
from ortpkg.selection.matching.verdict import ReasonCode, Selection, Verdict
from ortpkg.selection.releases.common_rules import (
    JointCompatibilityOf,
    ReleaseJudgement,
    ReleaseRules,
    SelectingEp,
)
from ortpkg.selection.releases.release_lines import RELEASE_LINES

_ONNXRUNTIME = "onnxruntime"


@dataclass(frozen=True, slots=True, kw_only=True)
class _JudgedVariant:
    """A variant as the release judged it.

    Attributes:
        variant: the variant.
        judgement: the release's judgement.
        runnable_devices: EP devices on which it could run here; None stands for no device.
        order: position among equal scores, if it is eligible.
    """

    variant: VariantInfo
    judgement: ReleaseJudgement
    runnable_devices: tuple[EpDevice | None, ...]
    order: int = 0

    def rank(self, place_at: int) -> tuple[int, ...]:
        """Return one number per criterion of the release; smaller is better."""
        return (-self.judgement.score, self.order, place_at)


def select_as_release(
    component: ComponentInfo,
    ep_devices: Sequence[EpDevice],
    *,
    policy: str,
    hardware: Sequence[HardwareDevice],
    compatibility: JointCompatibilityOf,
    eps: Sequence[str] = (),
    constraints: Mapping[str, Constraints] | None = None,
    refusal: str = "",
    notes: Sequence[str] = (),
) -> Selection:
    """Return the selection of a release from ``component``, with a verdict on every variant.

    ``best`` is None if the release selects nothing. ``unpredictable`` names the variants among
    which its rules do not decide; ``best`` is then the likeliest, if any is.

    Args:
        component: the component model.
        ep_devices: offers of the EPs, in any order.
        policy: a key of RELEASE_LINES.
        hardware: devices of the machine.
        compatibility: an EP factory's rating of a compatibility string on EP devices of one EP
            together.
        eps: EPs that an application asks for, in its order; aliases are understood.
        constraints: variant → the constraints that the release reads, for all that it reads; None
            if these are the variants' own.
        refusal: reason why the release does not open the package; "" if it does.
        notes: carried into the warnings.

    Raises:
        UsageError: an unknown EP.
    """
    rules = RELEASE_LINES[policy].rules
    ordered = order_devices(ep_devices, POLICIES["default"], hardware)
    requested_eps = _full_names(eps, component, ordered)
    constraints_by_name = {
        variant.name: rules.constraints_of(variant)
        if constraints is None
        else constraints.get(variant.name)
        for variant in component.variants
    }
    ep = _selecting_ep(rules.selecting_ep(requested_eps), ordered, rules)
    judged = [
        _judge(variant, constraints_by_name[variant.name], ep, rules, compatibility, refusal)
        for variant in component.variants
    ]
    eligible = _in_order(
        [judged_variant for judged_variant in judged if judged_variant.judgement.code is None],
        constraints_by_name,
        rules,
    )
    if reason := _ambiguity_reason(eligible, component, rules):
        judged = [
            _rejected(variant, ReasonCode.PACKAGE_REFUSED, reason) for variant in component.variants
        ]
        eligible = []
    tied = _tied(eligible)
    verdicts = _verdicts(
        eligible,
        [judged_variant for judged_variant in judged if judged_variant.judgement.code is not None],
        rules,
    )
    is_open = len(tied) > 1 and rules.observed_tie is not None
    return Selection(
        component_name=component.name,
        policy=policy,
        verdicts=verdicts,
        criteria=rules.criteria,
        best=verdicts[0] if eligible else None,
        ep=", ".join(requested_eps) or None,
        ties=tied[1:],
        unpredictable=tied if is_open else (),
        hardware=tuple(hardware),
        ep_devices=tuple(ordered),
        warnings=(
            *notes,
            *_ep_warnings(requested_eps, ep, rules),
            *([_tie_warning(tied, constraints_by_name, rules)] if is_open else ()),
        ),
    )


def _full_names(
    eps: Sequence[str], component: ComponentInfo, ep_devices: Sequence[EpDevice]
) -> list[str]:
    constrained = (
        constraints.ep
        for variant in component.variants
        for constraints in (variant.constraints, variant.component_constraints)
        if constraints is not None
    )
    named = {
        name for name in (*constrained, *(ep_device.ep_name for ep_device in ep_devices)) if name
    }
    return [ep_named(ep, named) for ep in eps]


def _selecting_ep(
    name: str | None, ep_devices: Sequence[EpDevice], rules: ReleaseRules
) -> SelectingEp | None:
    """Return the EP as the release knows it: as onnxruntime reports it, or another backend."""
    if name is None:
        return None
    offers = tuple(ep_device for ep_device in ep_devices if ep_device.ep_name == name)
    backends = [ep_device.backend for ep_device in offers]
    reporting = _ONNXRUNTIME if _ONNXRUNTIME in backends else next(iter(backends), "")
    exposed = tuple(
        ep_device
        for ep_device in offers
        if ep_device.backend == reporting and ep_device.device is not None
    )
    is_exposed = name != CPU_EP or rules.exposes_cpu
    return SelectingEp(name=name, exposed=exposed if is_exposed else (), runnable_devices=offers)


def _judge(
    variant: VariantInfo,
    variant_constraints: Constraints | None,
    ep: SelectingEp | None,
    rules: ReleaseRules,
    compatibility: JointCompatibilityOf,
    refusal: str,
) -> _JudgedVariant:
    if refusal or variant_constraints is None:
        reason = refusal or f"it has no keys that {rules.release} reads"
        return _rejected(variant, ReasonCode.PACKAGE_REFUSED, reason)
    if ep is None:
        return _rejected(variant, ReasonCode.NO_EP_GIVEN, rules.without_ep)
    if not ep.runnable_devices and ep.name != CPU_EP:
        return _rejected(
            variant, ReasonCode.EP_NOT_AVAILABLE, f"{quoted(ep.name)} is not available here"
        )
    judgement = rules.judge(variant_constraints, ep, compatibility)
    offers = tuple(
        ep_device
        for ep_device in ep.runnable_devices
        if not judgement.device or _is_of_type(ep_device, judgement.device)
    )
    return _JudgedVariant(variant=variant, judgement=judgement, runnable_devices=offers or (None,))


def _rejected(variant: VariantInfo, code: ReasonCode, reason: str) -> _JudgedVariant:
    return _JudgedVariant(
        variant=variant,
        judgement=ReleaseJudgement(code=code, reason=reason),
        runnable_devices=(None,),
    )


def _tied(eligible: Sequence[_JudgedVariant]) -> tuple[str, ...]:
    """Return the variants with the best score, in order."""
    best_score = max((judged.judgement.score for judged in eligible), default=0)
    return tuple(judged.variant.name for judged in eligible if judged.judgement.score == best_score)


def _ambiguity_reason(
    eligible: Sequence[_JudgedVariant], component: ComponentInfo, rules: ReleaseRules
) -> str:
    """Return why a release cannot identify the first eligible variant; "" if it can.

    For some releases, names end at a NUL.
    """
    if not eligible or not rules.names_end_at_nul:
        return ""
    name = until_nul(eligible[0].variant.name)
    if sum(until_nul(variant.name) == name for variant in component.variants) == 1:
        return ""
    return (
        f"several variants are called {quoted(name)} up to a NUL, so that the selection is"
        " ambiguous"
    )


def _is_of_type(ep_device: EpDevice, device: str) -> bool:
    return ep_device.device is not None and ep_device.device.type.value == device


def _in_order(
    eligible: Sequence[_JudgedVariant],
    constraints_by_name: Mapping[str, Constraints | None],
    rules: ReleaseRules,
) -> list[_JudgedVariant]:
    """Return the variants that can run, the winner first."""
    orders = {name: order for order, name in enumerate(rules.order(_read(constraints_by_name)))}
    placed = (
        _JudgedVariant(
            variant=judged.variant,
            judgement=judged.judgement,
            runnable_devices=judged.runnable_devices,
            order=orders[judged.variant.name],
        )
        for judged in eligible
    )
    return sorted(placed, key=lambda entry: entry.rank(0))


def _verdicts(
    eligible: Sequence[_JudgedVariant], rejected: Sequence[_JudgedVariant], rules: ReleaseRules
) -> tuple[Verdict, ...]:
    """Return the verdicts, the best first.

    One for each EP device on which a variant could run here.
    """
    candidates = [
        (judged, place_at)
        for judged in eligible
        for place_at in range(len(judged.runnable_devices))
    ]
    return (
        *(
            _eligible_verdict(judged, place_at, eligible[0], rules)
            for judged, place_at in candidates
        ),
        *(_rejection(judged) for judged in rejected),
    )


def _eligible_verdict(
    judged: _JudgedVariant, place_at: int, winner: _JudgedVariant, rules: ReleaseRules
) -> Verdict:
    rank, best = judged.rank(place_at), winner.rank(0)
    decided_by = None if rank == best else deciding_criterion(rank, best, rules.criteria)
    return Verdict(
        variant=judged.variant,
        ep_device=judged.runnable_devices[place_at],
        code=ReasonCode.SELECTED if decided_by is None else ReasonCode.LOWER_RANK,
        reason=_reason(judged, winner, decided_by),
        compatibility=judged.judgement.compatibility,
        rank=rank,
        decided_by=decided_by,
        notes=judged.judgement.notes,
    )


def _reason(judged: _JudgedVariant, winner: _JudgedVariant, decided_by: str | None) -> str:
    name, score = quoted(winner.variant.name), judged.judgement.score
    reasons = {
        None: f"its score, {score}, is the best",
        "score": f"it can run, but {name} has the score {winner.judgement.score}, this one {score}",
        "declaration order": (
            f"it can run, but {name} has the same score, {score}, and is written first"
        ),
        "name": (
            f"it can run and has the same score as {name}, {score}: which of them wins is not"
            " specified"
        ),
        "EP device order": "the same variant, in another place that could run it here",
    }
    return reasons[decided_by]


def _rejection(judged: _JudgedVariant) -> Verdict:
    judgement = judged.judgement
    assert judgement.code is not None
    return Verdict(
        variant=judged.variant,
        ep_device=judged.runnable_devices[0],
        code=judgement.code,
        reason=judgement.reason,
        compatibility=judgement.compatibility,
        notes=judgement.notes,
    )


def _ep_warnings(
    requested_eps: Sequence[str], ep: SelectingEp | None, rules: ReleaseRules
) -> tuple[str, ...]:
    warnings: list[str] = []
    if ep is None:
        return ()
    if len(set(requested_eps)) > 1:
        warnings.append(f"{rules.release} selects by one execution provider only, here {ep.name}")
    if (
        ep.runnable_devices
        and all(ep_device.backend != _ONNXRUNTIME for ep_device in ep.runnable_devices)
        and ep.name != CPU_EP
    ):
        warnings.append(
            f"no onnxruntime here has {ep.name}: its devices are those that"
            f" {quoted(ep.runnable_devices[0].backend)} reports"
        )
    return tuple(warnings)


def _tie_warning(
    tied: Sequence[str], constraints_by_name: Mapping[str, Constraints | None], rules: ReleaseRules
) -> str:
    assert rules.observed_tie is not None
    names = ", ".join(quoted(name) for name in tied)
    observation = rules.observed_tie(tied, _read(constraints_by_name))
    return (
        f"unpredictable: {rules.release} does not specify which of {names} it selects;"
        f" {observation}"
    )


def _read(constraints_by_name: Mapping[str, Constraints | None]) -> dict[str, Constraints]:
    """Return the variants that the release reads."""
    return {
        name: constraints
        for name, constraints in constraints_by_name.items()
        if constraints is not None
    }
