"""Judge the variants of a component on every EP device, and find the best.

The rules of matching judge every variant, once for those with equal requirements, and give each
variant that matches an EP device its rank. The rules of fit may read a variant's model: they run in
the order of ranks until a variant fits, and for the rest when the verdicts are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from ortpkg.machine.policies import device_kind
from ortpkg.package.formats.variants import alike
from ortpkg.package.package_info import ComponentInfo, VariantInfo
from ortpkg.selection.matching.candidate import Candidate, Judgement, best_first
from ortpkg.selection.matching.compiled_speed import USUAL, Speeds, compiled_speeds
from ortpkg.selection.matching.fit import judge_fit
from ortpkg.selection.matching.matches_variant import Requirements, matches_variant, unavailable_ep
from ortpkg.selection.matching.provider_option_devices import device_option_of
from ortpkg.selection.matching.ranking import (
    Rank,
    are_tied,
    backend_preference,
    compatibility_preference,
    measured_rank,
)
from ortpkg.selection.matching.request import SelectionRequest
from ortpkg.selection.matching.verdict import ReasonCode

if TYPE_CHECKING:
    from ortpkg.selection.matching.record_index import RecordIndex

_PASSED_OVER = frozenset(
    {
        ReasonCode.SOURCE_CHANGED,
        ReasonCode.OPERATOR_NOT_AVAILABLE,
        ReasonCode.VARIANT_ABSENT,
        ReasonCode.NEEDS_TRUST,
    }
)


class Judges:
    """Judges of the variants of one selection.

    Attributes:
        requirements: position of a variant → its requirements.
        lacking: variants that would rank before the winner if their operators, their files or trust
            were here, or if their source were the model that they were made of.
    """

    def __init__(self, component: ComponentInfo, request: SelectionRequest) -> None:
        self._variants = component.variants
        self._request = request
        self._index = _index_of(component.name, request)
        self._uses_measurements = request.policy.uses_measurements
        self._device_preferences = [
            request.policy.preference(device_kind(ep_device, request.hardware))
            for ep_device in request.ep_devices
        ]
        self._judged: dict[tuple[Requirements, int], Judgement] = {}
        self._positions: dict[Requirements, list[int]] = {}
        for like in alike(self._variants):
            option = device_option_of(like) if like.provider_options else None
            requirements = Requirements.of(like.constraints, option)
            self._positions.setdefault(requirements, []).extend(like.indices)
        self.requirements = {
            position: requirements
            for requirements, positions in self._positions.items()
            for position in positions
        }
        self.lacking: dict[str, Candidate] = {}

    def winner(self) -> Candidate | None:
        """Return the best candidate that fits; None if none does."""
        best = self._first_that_fits()
        if best is None or best.rank is None or not self._has_choice(best.variant):
            return best
        return best_first(self._variant_candidates(best.rank.declared_at))[0]

    def candidates(self) -> Iterator[Candidate]:
        """Yield every variant on every EP device, in declaration order."""
        for declared_at in range(len(self._variants)):
            yield from self._variant_candidates(declared_at)

    def recorded(self) -> Iterator[Candidate]:
        """Yield the same for the variants that have records."""
        if self._index is None:
            return
        for declared_at, variant in enumerate(self._variants):
            if variant.name in self._index.variants:
                yield from self._judged_everywhere(declared_at)

    def tied_with(self, winner: Candidate) -> tuple[str, ...]:
        """Return the variants that only declaration order puts behind the winner, in order."""
        assert winner.rank is not None
        tied = {
            rank.declared_at
            for rank in self._ranks()
            if are_tied(rank, winner.rank) and self._ranked_candidate(rank).rank is not None
        }
        names = (self._variants[declared_at] for declared_at in sorted(tied))
        return tuple(variant.name for variant in names if variant is not winner.variant)

    def _first_that_fits(self) -> Candidate | None:
        for rank in sorted(self._ranks()):
            candidate = self._ranked_candidate(rank)
            if candidate.rank is not None:
                return candidate
            if candidate.judgement.code in _PASSED_OVER:
                self.lacking.setdefault(candidate.variant.name, candidate)
        return None

    def _ranks(self) -> Iterator[Rank]:
        """Yield the rank of every variant on every EP device that it matches, fitting or not."""
        return (self._with_speed(rank) for rank in self._usual_ranks())

    def _with_speed(self, rank: Rank) -> Rank:
        if not self._speeds:
            return rank
        speed = self._speeds.get((rank.declared_at, rank.ep_device_at), USUAL)
        return rank._replace(speed=speed.rank)

    @cached_property
    def _speeds(self) -> Speeds:
        """Speeds of compiled variants beside plain ones; empty unless there are both."""
        compiled = frozenset(
            declared_at
            for declared_at, requirements in self.requirements.items()
            if requirements.compatibility_info
        )
        if not compiled or len(compiled) == len(self.requirements):
            return {}
        return compiled_speeds(
            self._variants,
            compiled,
            self._usual_ranks(),
            self._request.ep_devices,
            {} if self._index is None else self._index.measurements,
        )

    def _usual_ranks(self) -> Iterator[Rank]:
        """Yield the same ranks without the speed of compiled code."""
        for requirements, positions in self._positions.items():
            for ep_device_at, ep_device in enumerate(self._request.ep_devices):
                if requirements.ep is None or requirements.ep == ep_device.ep_name:
                    judgement = self._judge(requirements, ep_device_at)
                    if judgement.code is None:
                        first = self._first_rank(judgement, requirements, ep_device_at)
                        for declared_at in positions:
                            yield self._rank(first, declared_at)

    def _first_rank(
        self, judgement: Judgement, requirements: Requirements, ep_device_at: int
    ) -> Rank:
        """Return the rank of a variant with this judgement that is declared first."""
        return Rank(
            measured=0,
            latency=0,
            device=self._device_preferences[ep_device_at],
            speed=USUAL.rank,
            compatibility=compatibility_preference(judgement.compatibility),
            architecture=judgement.architecture_distance,
            named_ep=0 if requirements.ep is not None else 1,
            backend=backend_preference(self._request.ep_devices[ep_device_at].backend),
            declared_at=0,
            ep_device_at=ep_device_at,
        )

    def _rank(self, first: Rank, declared_at: int) -> Rank:
        rank = first._replace(declared_at=declared_at)
        if not self._uses_measurements:
            return rank
        records, key = self._index, (self._variants[declared_at].name, rank.ep_device_at)
        return measured_rank(rank, None if records is None else records.measurements.get(key))

    def _judge(self, requirements: Requirements, ep_device_at: int) -> Judgement:
        """Judge by the rules of matching, once: an EP may not give the same answer twice."""
        key = (requirements, ep_device_at)
        judgement = self._judged.get(key)
        if judgement is None:
            ep_device = self._request.ep_devices[ep_device_at]
            judgement = matches_variant(requirements, ep_device, self._request)
            self._judged[key] = judgement
        return judgement

    def _candidate(self, declared_at: int, ep_device_at: int) -> Candidate:
        """Return the candidate, judged by all rules."""
        variant, requirements = self._variants[declared_at], self.requirements[declared_at]
        rank, judgement = None, self._judge(requirements, ep_device_at)
        speed = self._speeds.get((declared_at, ep_device_at), USUAL)
        if judgement.code is None:
            fitting = judgement.and_then(
                judge_fit(variant, ep_device_at, self._request, self._index)
            )
            if fitting.code is None:
                first = self._first_rank(judgement, requirements, ep_device_at)
                rank = self._with_speed(self._rank(first, declared_at))
            judgement = fitting
        return Candidate(
            variant=variant,
            ep_device=self._request.ep_devices[ep_device_at],
            judgement=judgement,
            rank=rank,
            speed_reason=speed.reason,
        )

    def _ranked_candidate(self, rank: Rank) -> Candidate:
        return self._candidate(rank.declared_at, rank.ep_device_at)

    def _judged_everywhere(self, declared_at: int) -> Iterator[Candidate]:
        """Yield a variant on every EP device; on None if there is no device of its EP."""
        unavailable = unavailable_ep(self.requirements[declared_at], self._request)
        if unavailable is not None:
            variant = self._variants[declared_at]
            yield Candidate(variant=variant, ep_device=None, judgement=unavailable, rank=None)
            return
        for ep_device_at in range(len(self._request.ep_devices)):
            yield self._candidate(declared_at, ep_device_at)

    def _variant_candidates(self, declared_at: int) -> Iterable[Candidate]:
        """Return the candidates of a variant, ranked after records have chosen its backend."""
        candidates = self._judged_everywhere(declared_at)
        if not self._has_choice(self._variants[declared_at]):
            return candidates
        from ortpkg.selection.matching.backend_choice import (
            choose_backends,  # only if something was measured
        )

        return choose_backends(candidates, self._request.hardware)

    def _has_choice(self, variant: VariantInfo) -> bool:
        """Return True if measurements may choose the variant's backend.

        Under a policy of measurements they decide everything, not just the backend.
        """
        index = None if self._uses_measurements else self._index
        return index is not None and variant.name in index.compared


def _index_of(component_name: str, request: SelectionRequest) -> RecordIndex | None:
    if request.records is None:
        return None
    from ortpkg.selection.matching.record_index import (
        index_records,  # most machines have no records
    )

    return index_records(request.records, component_name, request.ep_devices)
