"""Judges the variants of a component on every EP device, and finds the best: the inner loop of a
selection.

Most variants are never looked at. Those that require the same but for their compatibility strings
are of one kind; the rules say what rank a kind can have at best on an EP device, and variants are
judged in that order, until none that is left can be better than the best. The rest is judged when
somebody reads the verdicts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush, heapreplace

from ortpkg.devices.hardware import EpDevice
from ortpkg.package.formats.variants import alike
from ortpkg.package.package_info import VariantInfo
from ortpkg.providers.ep_factory import CompiledModelCompatibility
from ortpkg.selection.fit import FitContext, concern_of, judge_fit
from ortpkg.selection.matches_variant import (
    Judgement,
    MatchContext,
    Requirements,
    matches_variant,
    unavailable_ep,
)
from ortpkg.selection.policies import Policy, device_kind
from ortpkg.selection.provider_option_devices import device_option_of
from ortpkg.selection.ranking import MEASURED_STANDING_OF_NONE, measured_standing, standing_of
from ortpkg.selection.verdict import ReasonCode


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the rules say of requirements on one EP device; ``standing`` is the rank's beginning,
    None if rejected.
    """

    ep_device: EpDevice | None
    ep_device_at: int
    judgement: Judgement
    standing: tuple[int, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Variants that require the same, but for what their compatibility strings say.

    Attributes:
        requirements: without a compatibility string.
        members: each variant's position in the package and its compatibility string, None where it
            has none; in the order of positions.
        is_rated: whether any has one.
    """

    requirements: Requirements
    members: list[tuple[int, str | None]] = field(default_factory=list)
    is_rated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A variant on an EP device, judged, with its rank if it is eligible.

    ``compared``: what it has in common with the candidates with which measurements compared it;
        None where none did.
    """

    variant: VariantInfo
    ep_device: EpDevice | None
    judgement: Judgement
    rank: tuple[int, ...] | None
    compared: tuple[object, ...] | None = None


class Judges:
    """All that judges the variants of one selection.

    Args:
        variants: of the component, in declaration order.
        context: for the rules of matching.
        policy: whose order of devices counts.
        fit: for the rules of fit; None where there is nothing to compare with.
    """

    def __init__(
        self,
        variants: Sequence[VariantInfo],
        context: MatchContext,
        policy: Policy,
        fit: FitContext | None,
    ) -> None:
        self.variants = variants
        self.kinds = _kinds_of(variants)
        self._context = context
        self._policy = policy
        self._fit = fit
        self._uses_measurements = policy.uses_measurements
        self._outcomes: dict[tuple[Requirements, int], Outcome] = {}
        self._of_other_eps: dict[tuple[str, int], Outcome] = {}
        #: Variants that would have come before the winner, had anything their operators.
        self.lacking: dict[str, Candidate] = {}

    def winner(self) -> Candidate | None:
        """The best of all that fits."""
        measured = self._best_measured() if self._uses_measurements else None
        best = measured or self._first_in_order()
        if best is None or best.rank is None or not self._has_choice(best.variant):
            return best
        declared_at = best.rank[-2]
        kind, info = self._places()[declared_at]
        return min(
            (each for each in self._of_variant(kind, info, declared_at) if each.rank is not None),
            key=lambda each: each.rank or (),
        )

    def _first_in_order(self) -> Candidate | None:
        for each in self._in_order():
            if each.rank is not None:
                return each
            if each.judgement.code is ReasonCode.OPERATOR_NOT_AVAILABLE:
                self.lacking.setdefault(each.variant.name, each)
        return None

    def candidates(self) -> Iterator[Candidate]:
        """Every variant on every EP device, in declaration order."""
        places = self._places()
        for declared_at in range(len(self.variants)):
            yield from self._of_variant(*places[declared_at], declared_at)

    def recorded(self) -> Iterator[Candidate]:
        """The same for the variants of which there are records."""
        index = None if self._fit is None else self._fit.records
        if index is None:
            return
        for kind in self.kinds:
            for declared_at, info in kind.members:
                if self.variants[declared_at].name in index.variants:
                    outcomes = self._all_outcomes(_with_info(kind, info))
                    yield from (self._candidate(outcome, declared_at) for outcome in outcomes)

    def tied_with(self, winner: Candidate, length: int) -> tuple[str, ...]:
        """Names of the other variants whose rank begins with the same ``length`` numbers, in
        declaration order.
        """
        assert winner.rank is not None
        best = winner.rank[:length]
        standing = best[len(MEASURED_STANDING_OF_NONE) :] if self._uses_measurements else best
        tied = {
            declared_at
            for kind in self.kinds
            for at_best in self._at_best(kind)
            if at_best.standing is not None and at_best.standing <= standing
            for declared_at, info in kind.members
            if (outcome := self._rated(at_best, kind, info)).standing == standing
            and (rank := self._candidate(outcome, declared_at).rank) is not None
            and rank[:length] == best
        }
        names = (self.variants[declared_at] for declared_at in sorted(tied))
        return tuple(each.name for each in names if each is not winner.variant)

    def _places(self) -> dict[int, tuple[Kind, str | None]]:
        """Each variant's kind and compatibility string, by its position in the package."""
        return {
            declared_at: (kind, info) for kind in self.kinds for declared_at, info in kind.members
        }

    def _of_variant(self, kind: Kind, info: str | None, declared_at: int) -> Iterable[Candidate]:
        """A variant on every EP device, with the ranks that count."""
        outcomes = self._all_outcomes(_with_info(kind, info))
        found = (self._candidate(outcome, declared_at) for outcome in outcomes)
        if not self._has_choice(self.variants[declared_at]):
            return found
        from ortpkg.selection.backend_choice import (
            choose_backends,  # only where something was measured
        )

        return choose_backends(found, self._context.hardware)

    def _has_choice(self, variant: VariantInfo) -> bool:
        """Whether measurements may choose the variant's backend; where they are the policy, they
        choose everything.
        """
        index = None if self._fit is None or self._uses_measurements else self._fit.records
        return index is not None and variant.name in index.compared

    def _best_measured(self) -> Candidate | None:
        measured = (
            each for each in self.recorded() if each.rank is not None and each.judgement.measurement
        )
        return min(measured, key=lambda each: each.rank or (), default=None)

    def _in_order(self) -> Iterator[Candidate]:
        """What the rules of matching let pass, best first; each is judged and made when it is asked
        for.

        A heap of rows: for each kind and EP device its next variant, with the rank that it can have
        at best; and variants whose rating has told their rank. What comes first and is rated is the
        best: nothing left has less.
        """
        rows: list[tuple[tuple[int, ...], Outcome, Kind | None, int]] = [
            ((*at_best.standing, kind.members[0][0], at_best.ep_device_at), at_best, kind, 0)
            for kind in self.kinds
            for at_best in self._at_best(kind)
            if at_best.standing is not None
        ]
        # ranks differ in the variant or the EP device: nothing behind them is compared
        heapify(rows)
        while rows:
            rank, outcome, kind, row_at = rows[0]
            if kind is None:
                heappop(rows)
                yield self._candidate(outcome, rank[-2])
                continue
            declared_at, info = kind.members[row_at]
            if row_at + 1 < len(kind.members):
                next_rank = (*rank[:-2], kind.members[row_at + 1][0], rank[-1])
                heapreplace(rows, (next_rank, outcome, kind, row_at + 1))
            else:
                heappop(rows)
            rated = self._rated(outcome, kind, info)
            if rated.standing == outcome.standing:
                yield self._candidate(rated, declared_at)
            elif rated.standing is not None:
                heappush(rows, ((*rated.standing, declared_at, rank[-1]), rated, None, 0))

    def _at_best(self, kind: Kind) -> Iterator[Outcome]:
        """What the rules say of a kind on each EP device that it names, if every compatibility
        string is OPTIMAL.
        """
        requirements = kind.requirements
        for ep_device_at, ep_device in enumerate(self._context.ep_devices):
            if requirements.ep is None or requirements.ep == ep_device.ep_name:
                outcome = self._outcome(requirements, ep_device_at)
                if kind.is_rated and outcome.standing is not None:
                    standing = self._standing(
                        outcome.judgement, requirements, ep_device_at, is_optimal=True
                    )
                    outcome = replace(outcome, standing=standing)
                yield outcome

    def _rated(self, at_best: Outcome, kind: Kind, info: str | None) -> Outcome:
        """What the rules say of a kind's variant with a compatibility string, where ``at_best`` is
        what it can be.
        """
        if not kind.is_rated:
            return at_best
        return self._outcome(_with_info(kind, info), at_best.ep_device_at)

    def _all_outcomes(self, requirements: Requirements) -> Iterator[Outcome]:
        """What the rules say on each EP device; on one of another EP it is the same for every
        variant of an EP.
        """
        unavailable = unavailable_ep(requirements, self._context)
        if unavailable is not None:
            yield Outcome(ep_device=None, ep_device_at=0, judgement=unavailable, standing=None)
            return
        ep = requirements.ep
        for ep_device_at, ep_device in enumerate(self._context.ep_devices):
            if ep is None or ep == ep_device.ep_name:
                yield self._outcome(requirements, ep_device_at)
                continue
            outcome = self._of_other_eps.get((ep, ep_device_at))
            if outcome is None:
                outcome = self._of_other_eps[ep, ep_device_at] = self._judge(
                    requirements, ep_device_at
                )
            yield outcome

    def _outcome(self, requirements: Requirements, ep_device_at: int) -> Outcome:
        """Judged once: an EP that is asked twice may not answer twice alike."""
        key = (requirements, ep_device_at)
        outcome = self._outcomes.get(key)
        if outcome is None:
            outcome = self._outcomes[key] = self._judge(requirements, ep_device_at)
        return outcome

    def _judge(self, requirements: Requirements, ep_device_at: int) -> Outcome:
        ep_device = self._context.ep_devices[ep_device_at]
        judgement = matches_variant(requirements, ep_device, self._context)
        standing = (
            None
            if judgement.code is not None
            else self._standing(judgement, requirements, ep_device_at)
        )
        return Outcome(
            ep_device=ep_device, ep_device_at=ep_device_at, judgement=judgement, standing=standing
        )

    def _standing(
        self,
        judgement: Judgement,
        requirements: Requirements,
        ep_device_at: int,
        *,
        is_optimal: bool = False,
    ) -> tuple[int, ...]:
        ep_device = self._context.ep_devices[ep_device_at]
        return standing_of(
            device_preference=self._policy.preference(
                device_kind(ep_device, self._context.hardware)
            ),
            compatibility=CompiledModelCompatibility.OPTIMAL
            if is_optimal
            else judgement.compatibility,
            architecture_distance=judgement.architecture_distance,
            names_ep=requirements.ep is not None,
            backend=ep_device.backend,
        )

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
        return Candidate(
            variant=variant, ep_device=outcome.ep_device, judgement=judgement, rank=rank
        )


def _kinds_of(variants: Sequence[VariantInfo]) -> list[Kind]:
    """In the order of their first mention."""
    kinds: dict[tuple[object, ...], Kind] = {}
    for like in alike(variants):
        stated, places = like.constraints, like.places
        info = stated.ep_compatibility_info or None
        option = device_option_of(like) if like.provider_options else None
        key = (stated.ep, stated.device, stated.architecture, option, info is None)
        kind = kinds.get(key)
        if kind is None:
            requirements = Requirements.of(stated, option)
            kind = kinds[key] = Kind(requirements=requirements, is_rated=info is not None)
        if len(places) == 1:
            kind.members.append((places[0], info))
        else:
            kind.members.extend([(declared_at, info) for declared_at in places])
    for kind in kinds.values():
        kind.members.sort()
    return list(kinds.values())


def _with_info(kind: Kind, info: str | None) -> Requirements:
    return kind.requirements if info is None else kind.requirements.with_compatibility_info(info)


def _with_fit(
    judgement: Judgement, variant: VariantInfo, ep_device_at: int, fit: FitContext
) -> Judgement:
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
