"""How onnxruntime 1.26 and 1.27 select from the metadata generation: the policy "onnxruntime-1.27".

Source: the behaviour of the releases 1.26.0 and 1.27.0, which tests/interop/ holds this against.
The numbers are those of the table in docs/selection.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ortpkg.devices.hardware import EpDevice
from ortpkg.ep_names import CPU_EP
from ortpkg.errors import quoted
from ortpkg.package.package_info import Constraints
from ortpkg.providers.ep_factory import CompiledModelCompatibility
from ortpkg.releases.common_rules import (
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
from ortpkg.selection.verdict import ReasonCode

#: In larger components the first by name was no likelier to win a tie than any other.
_MOST_VARIANTS_IN_ORDER = 13

_NAMED_EP_SCORE = 10


def _selecting_ep(eps: Sequence[str]) -> str | None:
    """A1: the first that is not the CPU's.

    The CPU alone counts as none, before the package is looked at.
    """
    return next((ep for ep in eps if ep != CPU_EP), None)


def _judge(stated: Constraints, ep: SelectingEp, rate: JointCompatibilityOf) -> ReleaseJudgement:
    """A2 to A4 and A6 for one variant.

    One that states nothing (A2) is what A3 lets pass, with the score 0.
    """
    if stated.ep and stated.ep != ep.name:  # A3
        return ReleaseJudgement(
            code=ReasonCode.EP_MISMATCH,
            reason=f"it is for {quoted(stated.ep)}; only {ep.name} is tried",
        )
    notes: list[str] = []
    device = (stated.device or "").lower()
    asked = ep.exposed
    if device and not ep.exposed:
        notes.append(f"device {quoted(device)} not looked at: {ep.name} exposes no devices")
    elif device:
        asked = exposed_of_type(ep, device)[:1]
        if not asked:
            return device_rejection(ep, device)
    rating = _rating(stated.ep_compatibility_info or "", asked, ep, rate, notes)
    if rating is CompiledModelCompatibility.UNSUPPORTED:
        return unsupported(ep, stated.ep_compatibility_info or "")
    if stated.architecture:
        notes.append(f"architecture {quoted(stated.architecture)} is never matched")  # A6
    return ReleaseJudgement(
        score=SCORES.get(rating, 0) + (_NAMED_EP_SCORE if stated.ep else 0),  # A4
        device=device if ep.exposed else "",
        compatibility=rating,
        notes=(*notes, *rating_notes(rating)),
    )


def _rating(
    info: str,
    asked: Sequence[EpDevice],
    ep: SelectingEp,
    rate: JointCompatibilityOf,
    notes: list[str],
) -> CompiledModelCompatibility:
    """A3: an EP that fails to judge is noted, and the variant stays."""
    if not info or not asked:
        return CompiledModelCompatibility.NOT_APPLICABLE
    try:
        return rate(asked, info)
    except Exception as error:  # noqa: BLE001 - foreign code; whatever it raises, the release keeps the variant
        notes.append(
            f"{ep.name} failed to judge its compatibility string, which then counts as none:"
            f" {quoted(error)}"
        )
        return CompiledModelCompatibility.NOT_APPLICABLE


def _seen_order(stated: Mapping[str, Constraints]) -> list[str]:
    """A5: in which order variants win ties, which is not specified.

    On Linux those that state nothing mostly come last; else mostly the first by name wins.
    """
    return sorted(
        stated, key=lambda name: (_is_base(stated[name]), name.encode("utf-8", "surrogatepass"))
    )


def _seen_of_tie(tied: Sequence[str], stated: Mapping[str, Constraints]) -> str:
    """A5: who was seen to win a tie of these, where anybody was.

    With 1.26.0 and 1.27.0 on Linux the first by name of all variants won every tie that it was part
    of, in components of up to 13 variants, and where of the tied either all or none state nothing.
    """
    first = min(stated, key=lambda name: name.encode("utf-8", "surrogatepass"))
    is_mixed = len({_is_base(stated[name]) for name in tied}) > 1
    if tied[0] == first and not is_mixed and len(stated) <= _MOST_VARIANTS_IN_ORDER:
        return f"on Linux {quoted(first)} was seen to win"
    return "no order was seen"


def _is_base(stated: Constraints) -> bool:
    """A2: it states nothing. Only here does an architecture make a difference."""
    return not (stated.ep or stated.device or stated.architecture or stated.ep_compatibility_info)


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
    seen_of_tie=_seen_of_tie,
)
