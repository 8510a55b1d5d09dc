"""Rules by which onnxruntime 1.26 and 1.27 select from the metadata generation.

They are the policy "onnxruntime-1.27". Source: the behaviour of the releases 1.26.0 and 1.27.0,
with which tests/interop/ compares this module. The rule numbers are those of the table in
docs/selection.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ortpkg.foundations.ep_names import CPU_EP
from ortpkg.foundations.errors import quoted
from ortpkg.machine.hardware import EpDevice
from ortpkg.package.package_info import Constraints
from ortpkg.runtime.providers.ep_factory import CompiledModelCompatibility
from ortpkg.selection.matching.verdict import ReasonCode
from ortpkg.selection.releases.common_rules import (
    SCORES,
    JointCompatibilityOf,
    ReleaseJudgement,
    ReleaseRules,
    SelectingEp,
    device_rejection,
    exposed_of_type,
    rating_notes,
    unsupported,
)

#: In larger components the first by name was no more likely to win a tie than any other.
_MOST_VARIANTS_IN_ORDER = 13

_NAMED_EP_SCORE = 10


def _selecting_ep(eps: Sequence[str]) -> str | None:
    """A1: return the first EP that is not the CPU's.

    The CPU alone counts as none, before the package is read.
    """
    return next((ep for ep in eps if ep != CPU_EP), None)


def _judge(
    constraints: Constraints, ep: SelectingEp, rate: JointCompatibilityOf
) -> ReleaseJudgement:
    """Judge one variant by A2 to A4 and A6.

    A variant that states nothing (A2) passes A3 with the score 0.
    """
    if constraints.ep and constraints.ep != ep.name:  # A3
        return ReleaseJudgement(
            code=ReasonCode.EP_MISMATCH,
            reason=f"it is for {quoted(constraints.ep)}; only {ep.name} is tried",
        )
    notes: list[str] = []
    device = (constraints.device or "").lower()
    rated_devices = ep.exposed
    if device and not ep.exposed:
        notes.append(f"device {quoted(device)} not looked at: {ep.name} exposes no devices")
    elif device:
        rated_devices = exposed_of_type(ep, device)[:1]
        if not rated_devices:
            return device_rejection(ep, device)
    rating = _rating(constraints.ep_compatibility_info or "", rated_devices, ep, rate, notes)
    if rating is CompiledModelCompatibility.UNSUPPORTED:
        return unsupported(ep, constraints.ep_compatibility_info or "")
    if constraints.architecture:
        notes.append(f"architecture {quoted(constraints.architecture)} is never matched")  # A6
    return ReleaseJudgement(
        score=SCORES.get(rating, 0) + (_NAMED_EP_SCORE if constraints.ep else 0),  # A4
        device=device if ep.exposed else "",
        compatibility=rating,
        notes=(*notes, *rating_notes(rating)),
    )


def _rating(
    info: str,
    rated_devices: Sequence[EpDevice],
    ep: SelectingEp,
    rate: JointCompatibilityOf,
    notes: list[str],
) -> CompiledModelCompatibility:
    """A3: rate the compatibility string; if the EP fails, add a note and keep the variant."""
    if not info or not rated_devices:
        return CompiledModelCompatibility.NOT_APPLICABLE
    try:
        return rate(rated_devices, info)
    except Exception as error:  # noqa: BLE001 - foreign code; whatever it raises, the release keeps the variant
        notes.append(
            f"{ep.name} failed to judge its compatibility string, which then counts as none:"
            f" {quoted(error)}"
        )
        return CompiledModelCompatibility.NOT_APPLICABLE


def _seen_order(constraints_by_name: Mapping[str, Constraints]) -> list[str]:
    """A5: return variants in the order in which they win ties, which is not specified.

    On Linux those that state nothing mostly come last; otherwise mostly the first by name wins.
    """
    return sorted(
        constraints_by_name,
        key=lambda name: (
            _is_base(constraints_by_name[name]),
            name.encode("utf-8", "surrogatepass"),
        ),
    )


def _seen_of_tie(tied: Sequence[str], constraints_by_name: Mapping[str, Constraints]) -> str:
    """A5: return which of these variants was seen to win a tie, if any.

    With 1.26.0 and 1.27.0 on Linux the first by name of all variants won every tie that it was part
    of, in components of up to 13 variants, and if either all or none of the tied variants state
    nothing.
    """
    first = min(constraints_by_name, key=lambda name: name.encode("utf-8", "surrogatepass"))
    is_mixed = len({_is_base(constraints_by_name[name]) for name in tied}) > 1
    if tied[0] == first and not is_mixed and len(constraints_by_name) <= _MOST_VARIANTS_IN_ORDER:
        return f"on Linux {quoted(first)} was seen to win"
    return "no order was seen"


def _is_base(constraints: Constraints) -> bool:
    """A2: return True if it states nothing. Only here does an architecture make a difference."""
    return not (
        constraints.ep
        or constraints.device
        or constraints.architecture
        or constraints.ep_compatibility_info
    )


METADATA_RULES = ReleaseRules(
    release="onnxruntime 1.27",
    criteria=("score", "name", "EP device order"),
    constraints_of=lambda variant: variant.constraints,
    selecting_ep=_selecting_ep,
    without_ep="onnxruntime 1.27 is given no EP but the CPU's, and selects nothing then",
    names_end_at_nul=False,
    exposes_cpu=True,
    judge=_judge,
    order=_seen_order,
    observed_tie=_seen_of_tie,
)
