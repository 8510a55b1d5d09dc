"""Judges the variants of a component on every EP device, and finds the best: the inner loop of a selection.

Most variants are never looked at: those that require the same are judged together, and whether one fits is asked in the
order of rank, until one does. The rest is judged when somebody reads the verdicts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import merge

from ortpkg.devices.hardware import EpDevice
from ortpkg.package.package_info import VariantInfo
from ortpkg.package.variants import alike
from ortpkg.selection.fit import FitContext, concern_of, judge_fit
from ortpkg.selection.matches_variant import Judgement, MatchContext, Requirements, matches_variant, unavailable_ep
from ortpkg.selection.policies import Policy, device_kind
from ortpkg.selection.provider_option_devices import device_option_of
from ortpkg.selection.ranking import MEASURED_STANDING_OF_NONE, measured_standing, standing_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the rules say of requirements on one EP device; ``standing`` is the rank's beginning, None if rejected."""

    ep_device: EpDevice | None
    ep_device_at: int
    judgement: Judgement
    standing: tuple[int, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Variants that require the same, by their positions in the package: the rules of matching judge them once."""

    requirements: Requirements
    outcomes: tuple[Outcome, ...]
    members: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A variant on an EP device, judged, with its rank if it is eligible."""

    variant: VariantInfo
    ep_device: EpDevice | None
    judgement: Judgement
    rank: tuple[int, ...] | None


class Judges:
    """All that judges the variants of one selection.

    Args:
        variants: of the component, in declaration order.
        context: for the rules of matching.
        policy: whose order of devices counts.
        fit: for the rules of fit; None where there is nothing to compare with.
    """

    def __init__(
        self, variants: Sequence[VariantInfo], context: MatchContext, policy: Policy, fit: FitContext | None
    ) -> None:
        self.variants = variants
        self.groups = _judge_groups(variants, context, policy)
        self._fit = fit
        self._uses_measurements = policy.uses_measurements

    def winner(self) -> Candidate | None:
        """The best of all that fits."""
        measured = self._best_measured() if self._uses_measurements else None
        return measured or next((each for each in self._in_order() if each.rank is not None), None)

    def candidates(self) -> Iterator[Candidate]:
        """Every variant on every EP device, in declaration order."""
        group_of = {declared_at: group for group in self.groups for declared_at in group.members}
        for declared_at in range(len(self.variants)):
            for outcome in group_of[declared_at].outcomes:
                yield self._candidate(outcome, declared_at)

    def recorded(self) -> Iterator[Candidate]:
        """The same for the variants of which there are records."""
        index = None if self._fit is None else self._fit.records
        if index is None:
            return
        for group in self.groups:
            for declared_at in group.members:
                if self.variants[declared_at].name in index.variants:
                    yield from (self._candidate(outcome, declared_at) for outcome in group.outcomes)

    def tied_with(self, winner: Candidate, length: int) -> tuple[str, ...]:
        """Names of the other variants whose rank begins with the same ``length`` numbers, in declaration order."""
        assert winner.rank is not None
        best = winner.rank[:length]
        standing = best[len(MEASURED_STANDING_OF_NONE) :] if self._uses_measurements else best
        tied = {
            declared_at
            for group in self.groups
            for outcome in group.outcomes
            if outcome.standing == standing
            for declared_at in group.members
            if (rank := self._candidate(outcome, declared_at).rank) is not None and rank[:length] == best
        }
        names = (self.variants[declared_at] for declared_at in sorted(tied))
        return tuple(each.name for each in names if each is not winner.variant)

    def _best_measured(self) -> Candidate | None:
        measured = (each for each in self.recorded() if each.rank is not None and each.judgement.measurement)
        return min(measured, key=lambda each: each.rank or (), default=None)

    def _in_order(self) -> Iterator[Candidate]:
        """What the rules of matching let pass, best first; each is made when it is asked for."""
        by_standing: dict[tuple[int, ...], list[tuple[Group, Outcome]]] = {}
        for group in self.groups:
            for outcome in group.outcomes:
                if outcome.standing is not None:
                    by_standing.setdefault(outcome.standing, []).append((group, outcome))
        for standing in sorted(by_standing):
            places = (_places(group, outcome) for group, outcome in by_standing[standing])
            for declared_at, _, outcome in merge(*places, key=lambda place: place[:2]):
                yield self._candidate(outcome, declared_at)

    def _candidate(self, outcome: Outcome, declared_at: int) -> Candidate:
        variant = self.variants[declared_at]
        judgement = outcome.judgement
        if self._fit is not None and judgement.code is None:
            judgement = _with_fit(judgement, variant, outcome.ep_device_at, self._fit)
        rank = None
        if outcome.standing is not None and judgement.code is None:
            rank = (*outcome.standing, declared_at, outcome.ep_device_at)
            if self._uses_measurements:
                rank = (*measured_standing(judgement.measurement), *rank)
        return Candidate(variant=variant, ep_device=outcome.ep_device, judgement=judgement, rank=rank)


def _places(group: Group, outcome: Outcome) -> Iterator[tuple[int, int, Outcome]]:
    return ((declared_at, outcome.ep_device_at, outcome) for declared_at in group.members)


def _judge_groups(variants: Sequence[VariantInfo], context: MatchContext, policy: Policy) -> list[Group]:
    """What the rules of matching say, by groups of variants that require the same."""
    preferences = [policy.preference(device_kind(ep_device, context.hardware)) for ep_device in context.ep_devices]
    groups: dict[tuple[object, ...], Group] = {}
    of_other_eps: dict[tuple[str, int], Outcome] = {}
    for like in alike(variants):
        stated = like.constraints
        option = device_option_of(like) if like.provider_options else None
        key = (stated.ep, stated.device, stated.architecture, stated.ep_compatibility_info, option)
        group = groups.get(key)
        if group is None:
            requirements = Requirements.of(like)
            outcomes = tuple(_outcomes(requirements, context, preferences, of_other_eps))
            group = groups[key] = Group(requirements=requirements, outcomes=outcomes)
        group.members.extend(like.places)
    for group in groups.values():
        group.members.sort()
    return list(groups.values())


def _outcomes(
    requirements: Requirements,
    context: MatchContext,
    preferences: Sequence[int],
    of_other_eps: dict[tuple[str, int], Outcome],
) -> Iterator[Outcome]:
    """What the rules say on each EP device; on one of another EP it is the same for every variant of an EP."""
    unavailable = unavailable_ep(requirements, context)
    if unavailable is not None:
        yield Outcome(ep_device=None, ep_device_at=0, judgement=unavailable, standing=None)
        return
    ep = requirements.ep
    for ep_device_at, ep_device in enumerate(context.ep_devices):
        if ep is None or ep == ep_device.ep_name:
            yield _outcome(requirements, context, ep_device_at, preferences[ep_device_at])
            continue
        outcome = of_other_eps.get((ep, ep_device_at))
        if outcome is None:
            outcome = of_other_eps[ep, ep_device_at] = _outcome(requirements, context, ep_device_at, 0)
        yield outcome


def _outcome(requirements: Requirements, context: MatchContext, ep_device_at: int, preference: int) -> Outcome:
    ep_device = context.ep_devices[ep_device_at]
    judgement = matches_variant(requirements, ep_device, context)
    standing = None
    if judgement.code is None:
        standing = standing_of(
            device_preference=preference,
            compatibility=judgement.compatibility,
            architecture_distance=judgement.architecture_distance,
            names_ep=requirements.ep is not None,
            backend=ep_device.backend,
        )
    return Outcome(ep_device=ep_device, ep_device_at=ep_device_at, judgement=judgement, standing=standing)


def _with_fit(judgement: Judgement, variant: VariantInfo, ep_device_at: int, fit: FitContext) -> Judgement:
    """The judgement with what the rules of fit add to it."""
    concern = concern_of(variant, fit)
    if concern is None:
        return judgement
    outcome = judge_fit(concern, ep_device_at, fit)
    code, reason = outcome.rejection or (None, "")
    return replace(
        judgement,
        code=code,
        reason=reason,
        notes=(*judgement.notes, *outcome.notes),
        unchecked=outcome.unchecked,
        measurement=outcome.measurement,
    )
