"""Which variant an onnxruntime release would select by its rules on this machine, and why.

It answers for an application that asks for execution providers (EPs) in an order, as session
options do, not for one that leaves the choice to a policy of onnxruntime's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ortpkg.devices.hardware import EpDevice, HardwareDevice
from ortpkg.ep_names import CPU_EP, ep_named
from ortpkg.errors import quoted
from ortpkg.package.package_info import ComponentInfo, Constraints, VariantInfo, until_nul
from ortpkg.releases.common_rules import (
    JointCompatibilityOf,
    ReleaseJudgement,
    ReleaseRules,
    SelectingEp,
)
from ortpkg.releases.release_lines import RELEASE_LINES
from ortpkg.selection.policies import POLICIES
from ortpkg.selection.ranking import deciding_criterion, order_devices
from ortpkg.selection.verdict import ReasonCode, Selection, Verdict

_ONNXRUNTIME = "onnxruntime"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    """A variant as the release judged it, with its place among equal scores if it is eligible."""

    variant: VariantInfo
    judgement: ReleaseJudgement
    places: tuple[EpDevice | None, ...]
    order: int = 0

    def rank(self, place_at: int) -> tuple[int, ...]:
        """One number per criterion of the release, smaller is better."""
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
    """What the release of ``policy`` selects from ``component``, with a verdict on every variant.

    Args:
        component: the component model.
        ep_devices: what the EPs offer; their order does not matter.
        policy: a key of RELEASE_LINES.
        hardware: what the machine has.
        compatibility: an EP factory's rating of a compatibility string on EP devices of one EP
            together.
        eps: the EPs that an application asks for, in its order; aliases are understood.
        constraints: variant → what the release reads of it, of all that it reads; None where that
            is what the variants carry.
        refusal: why the release does not even open the package; "" where it does.
        notes: carried into the warnings.

    ``best`` is None where the release selects nothing. ``unpredictable`` names the variants among
    which its rules do not decide; ``best`` is then the likeliest, if any is.

    Raises UsageError for an EP that nobody knows.
    """
    rules = RELEASE_LINES[policy].rules
    ordered = order_devices(ep_devices, POLICIES["default"], hardware)
    asked = _full_names(eps, component, ordered)
    stated = {
        each.name: rules.constraints_of(each) if constraints is None else constraints.get(each.name)
        for each in component.variants
    }
    ep = _selecting_ep(rules.selecting_ep(asked), ordered, rules)
    judged = [
        _judge(variant, stated[variant.name], ep, rules, compatibility, refusal)
        for variant in component.variants
    ]
    eligible = _in_order([each for each in judged if each.judgement.code is None], stated, rules)
    if reason := _why_ambiguous(eligible, component, rules):
        judged = [
            _rejected(variant, ReasonCode.PACKAGE_REFUSED, reason) for variant in component.variants
        ]
        eligible = []
    tied = _tied(eligible)
    verdicts = _verdicts(
        eligible, [each for each in judged if each.judgement.code is not None], rules
    )
    is_open = len(tied) > 1 and rules.seen_of_tie is not None
    return Selection(
        component_name=component.name,
        policy=policy,
        verdicts=verdicts,
        criteria=rules.criteria,
        best=verdicts[0] if eligible else None,
        ep=", ".join(asked) or None,
        ties=tied[1:],
        unpredictable=tied if is_open else (),
        hardware=tuple(hardware),
        ep_devices=tuple(ordered),
        warnings=(
            *notes,
            *_ep_warnings(asked, ep, rules),
            *([_tie_warning(tied, stated, rules)] if is_open else ()),
        ),
    )


def _full_names(
    eps: Sequence[str], component: ComponentInfo, ep_devices: Sequence[EpDevice]
) -> list[str]:
    stated = (
        constraints.ep
        for variant in component.variants
        for constraints in (variant.constraints, variant.component_constraints)
        if constraints is not None
    )
    named = {name for name in (*stated, *(each.ep_name for each in ep_devices)) if name}
    return [ep_named(ep, named) for ep in eps]


def _selecting_ep(
    name: str | None, ep_devices: Sequence[EpDevice], rules: ReleaseRules
) -> SelectingEp | None:
    """The EP as the release knows it: as onnxruntime reports it here, else as another does."""
    if name is None:
        return None
    places = tuple(each for each in ep_devices if each.ep_name == name)
    backends = [each.backend for each in places]
    reporting = _ONNXRUNTIME if _ONNXRUNTIME in backends else next(iter(backends), "")
    exposed = tuple(
        each for each in places if each.backend == reporting and each.device is not None
    )
    is_exposed = name != CPU_EP or rules.exposes_cpu
    return SelectingEp(name=name, exposed=exposed if is_exposed else (), places=places)


def _judge(
    variant: VariantInfo,
    stated: Constraints | None,
    ep: SelectingEp | None,
    rules: ReleaseRules,
    compatibility: JointCompatibilityOf,
    refusal: str,
) -> _Judged:
    if refusal or stated is None:
        reason = refusal or f"it has no keys that {rules.release} reads"
        return _rejected(variant, ReasonCode.PACKAGE_REFUSED, reason)
    if ep is None:
        return _rejected(variant, ReasonCode.NO_EP_GIVEN, rules.without_ep)
    if not ep.places and ep.name != CPU_EP:
        return _rejected(
            variant, ReasonCode.EP_NOT_AVAILABLE, f"{quoted(ep.name)} is not available here"
        )
    judgement = rules.judge(stated, ep, compatibility)
    places = tuple(
        each for each in ep.places if not judgement.device or _is_of_type(each, judgement.device)
    )
    return _Judged(variant=variant, judgement=judgement, places=places or (None,))


def _rejected(variant: VariantInfo, code: ReasonCode, reason: str) -> _Judged:
    return _Judged(
        variant=variant, judgement=ReleaseJudgement(code=code, reason=reason), places=(None,)
    )


def _tied(eligible: Sequence[_Judged]) -> tuple[str, ...]:
    """The variants with the best score, in order."""
    best_score = max((each.judgement.score for each in eligible), default=0)
    return tuple(each.variant.name for each in eligible if each.judgement.score == best_score)


def _why_ambiguous(
    eligible: Sequence[_Judged], component: ComponentInfo, rules: ReleaseRules
) -> str:
    """Why a release cannot say which variant it has chosen, the first that is eligible.

    To some, names end at a NUL. "" where it can, and where there is none.
    """
    if not eligible or not rules.names_end_at_nul:
        return ""
    name = until_nul(eligible[0].variant.name)
    if sum(until_nul(each.name) == name for each in component.variants) == 1:
        return ""
    return (
        f"several variants are called {quoted(name)} up to a NUL, so that the selection is"
        " ambiguous"
    )


def _is_of_type(ep_device: EpDevice, device: str) -> bool:
    return ep_device.device is not None and ep_device.device.type.value == device


def _in_order(
    eligible: Sequence[_Judged], stated: Mapping[str, Constraints | None], rules: ReleaseRules
) -> list[_Judged]:
    """The variants that can run, the winner first."""
    orders = {name: order for order, name in enumerate(rules.order(_read(stated)))}
    placed = (
        _Judged(
            variant=each.variant,
            judgement=each.judgement,
            places=each.places,
            order=orders[each.variant.name],
        )
        for each in eligible
    )
    return sorted(placed, key=lambda each: each.rank(0))


def _verdicts(
    eligible: Sequence[_Judged], rejected: Sequence[_Judged], rules: ReleaseRules
) -> tuple[Verdict, ...]:
    """Best first; where a variant could run in several places here, one for each."""
    candidates = [(each, place_at) for each in eligible for place_at in range(len(each.places))]
    return (
        *(_eligible_verdict(each, place_at, eligible[0], rules) for each, place_at in candidates),
        *(_rejection(each) for each in rejected),
    )


def _eligible_verdict(
    judged: _Judged, place_at: int, winner: _Judged, rules: ReleaseRules
) -> Verdict:
    rank, best = judged.rank(place_at), winner.rank(0)
    decided_by = None if rank == best else deciding_criterion(rank, best, rules.criteria)
    return Verdict(
        variant=judged.variant,
        ep_device=judged.places[place_at],
        code=ReasonCode.SELECTED if decided_by is None else ReasonCode.LOWER_RANK,
        reason=_reason(judged, winner, decided_by),
        compatibility=judged.judgement.compatibility,
        rank=rank,
        decided_by=decided_by,
        notes=judged.judgement.notes,
    )


def _reason(judged: _Judged, winner: _Judged, decided_by: str | None) -> str:
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


def _rejection(judged: _Judged) -> Verdict:
    judgement = judged.judgement
    assert judgement.code is not None
    return Verdict(
        variant=judged.variant,
        ep_device=judged.places[0],
        code=judgement.code,
        reason=judgement.reason,
        compatibility=judgement.compatibility,
        notes=judgement.notes,
    )


def _ep_warnings(
    asked: Sequence[str], ep: SelectingEp | None, rules: ReleaseRules
) -> tuple[str, ...]:
    found: list[str] = []
    if ep is None:
        return ()
    if len(set(asked)) > 1:
        found.append(f"{rules.release} selects by one execution provider only, here {ep.name}")
    if ep.places and all(each.backend != _ONNXRUNTIME for each in ep.places) and ep.name != CPU_EP:
        found.append(
            f"no onnxruntime here has {ep.name}: its devices are those that"
            f" {quoted(ep.places[0].backend)} reports"
        )
    return tuple(found)


def _tie_warning(
    tied: Sequence[str], stated: Mapping[str, Constraints | None], rules: ReleaseRules
) -> str:
    assert rules.seen_of_tie is not None
    names = ", ".join(quoted(name) for name in tied)
    seen = rules.seen_of_tie(tied, _read(stated))
    return f"unpredictable: {rules.release} does not specify which of {names} it selects; {seen}"


def _read(stated: Mapping[str, Constraints | None]) -> dict[str, Constraints]:
    """Without variants that the release does not read."""
    return {name: constraints for name, constraints in stated.items() if constraints is not None}
