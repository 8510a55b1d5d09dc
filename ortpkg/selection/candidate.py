"""A variant on an EP device: what the rules say of it, and its rank where it is eligible."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from ortpkg.devices.hardware import EpDevice
from ortpkg.package.package_info import VariantInfo
from ortpkg.providers.ep_factory import CompiledModelCompatibility
from ortpkg.selection.ranking import Rank
from ortpkg.selection.verdict import ReasonCode

if TYPE_CHECKING:
    from ortpkg.selection.measurements import Measurement


class Judgement(NamedTuple):
    """What rules say, one or several together: a rejection's code and reason, or neither.

    And what was noted on the way.

    Attributes:
        code, reason: of a rejection.
        compatibility: the EP's rating.
        architecture_distance: how far the device's architecture is from the constraint's, or from
            what the EP says that it was compiled for; 0 where neither is known, NO_ARCHITECTURE
            where nothing is stated or they cannot be compared.
        notes: for the verdict.
        unchecked: those of the notes that say what could not be told, which a winner is warned of.
        measurement: what was measured of the variant there.
        why_recompile: why the EP would rather have it compiled anew, as a sentence's end; "" where
            it would not, or does not say.
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
        """This one, which is no rejection, with what later rules add."""
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

    ``speed_reason``: why, compiled, it comes after its plain variant; "" where it does not.
    ``compared``: what it has in common with the candidates with which measurements compared it;
        None where none did.
    """

    variant: VariantInfo
    ep_device: EpDevice | None
    judgement: Judgement
    rank: Rank | None
    compared: tuple[object, ...] | None = None
    speed_reason: str = ""


def best_first(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Those that are eligible, in the order of their ranks."""
    ranked = [(each.rank, each) for each in candidates if each.rank is not None]
    return [each for _, each in sorted(ranked, key=lambda pair: pair[0])]
