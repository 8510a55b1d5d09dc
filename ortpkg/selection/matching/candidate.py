"""Candidates: a variant on an EP device, with the judgement of the rules and a rank."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from ortpkg.machine.hardware import EpDevice
from ortpkg.package.package_info import VariantInfo
from ortpkg.runtime.providers.ep_factory import CompiledModelCompatibility
from ortpkg.selection.matching.ranking import Rank
from ortpkg.selection.matching.verdict import ReasonCode

if TYPE_CHECKING:
    from ortpkg.selection.matching.measurements import Measurement


class Judgement(NamedTuple):
    """Result of one or several rules: a rejection's code and reason, or neither; and notes.

    Attributes:
        code, reason: code and reason of a rejection.
        compatibility: the EP's rating.
        architecture_distance: distance of the device's architecture from the constraint's, or from
            the one that the EP says was compiled for; 0 if neither is known, NO_ARCHITECTURE if
            none is stated or they cannot be compared.
        notes: notes for the verdict.
        unchecked: notes on what could not be checked; the winner's become warnings.
        measurement: measurement of the variant there.
        why_recompile: the EP's reason to compile the variant anew, as a sentence's end; "" if it
            has none.
    """

    code: ReasonCode | None = None
    reason: str = ""
    compatibility: CompiledModelCompatibility = CompiledModelCompatibility.NOT_APPLICABLE
    architecture_distance: int = 0
    notes: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    measurement: Measurement | None = None
    why_recompile: str = ""

    def and_then(self, later: Judgement) -> Judgement:
        """Return this judgement, which is no rejection, combined with that of later rules."""
        is_rated = later.compatibility is not CompiledModelCompatibility.NOT_APPLICABLE
        return Judgement(
            code=later.code,
            reason=later.reason,
            compatibility=later.compatibility if is_rated else self.compatibility,
            architecture_distance=later.architecture_distance or self.architecture_distance,
            notes=(*self.notes, *later.notes),
            unchecked=(*self.unchecked, *later.unchecked),
            measurement=later.measurement or self.measurement,
            why_recompile=later.why_recompile or self.why_recompile,
        )


class Candidate(NamedTuple):
    """A variant on an EP device, judged; without a rank it is rejected.

    Attributes:
        variant, ep_device: the pair; ``ep_device`` is None if no EP device could be tried.
        judgement: judgement of the rules.
        rank: its place in the order; None for a rejection.
        compared: key that it shares with the candidates with which measurements compared it; None
            if none did.
        speed_reason: reason why, compiled, it comes after its plain variant; "" if it does not.
    """

    variant: VariantInfo
    ep_device: EpDevice | None
    judgement: Judgement
    rank: Rank | None
    compared: tuple[object, ...] | None = None
    speed_reason: str = ""


def best_first(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the eligible candidates in the order of their ranks."""
    ranked = [(candidate.rank, candidate) for candidate in candidates if candidate.rank is not None]
    return [candidate for _, candidate in sorted(ranked, key=lambda pair: pair[0])]
