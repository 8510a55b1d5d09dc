"""Rules by which onnxruntime 1.28 and later select from the component generation: two policies.

"onnxruntime-1.31" is 1.28 to 1.31; in "onnxruntime-1.32" the CPU's execution provider has a device.
Source: the behaviour of the releases 1.28.0 to 1.32.0, with which tests/interop/ compares this
module. The rule numbers are those of the table in docs/selection.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ortpkg.foundations.ep_names import CPU_EP, resolve_ep_name
from ortpkg.foundations.errors import quoted
from ortpkg.package.package_info import Constraints, until_nul
from ortpkg.runtime.providers.ep_factory import CompiledModelCompatibility
from ortpkg.selection.matching.verdict import ReasonCode
from ortpkg.selection.releases.common_rules import (
    SCORES,
    UNKNOWN_RATING_SCORE,
    JointCompatibilityOf,
    ReleaseJudgement,
    ReleaseRules,
    SelectingEp,
    device_rejection,
    exposed_of_type,
    rating_notes,
    unsupported,
)


def _selecting_ep(eps: Sequence[str]) -> str | None:
    """C0 and C6: return the first EP that the application asks for, or the CPU's.

    No other is tried.
    """
    return eps[0] if eps else CPU_EP


def _judge(
    constraints: Constraints, ep: SelectingEp, rate: JointCompatibilityOf
) -> ReleaseJudgement:
    """Judge one variant by C1 to C4."""
    rejection = _ep_rejection(_text(constraints.ep), ep)
    if rejection is not None:
        return rejection
    device = _text(constraints.device).lower()
    rated_devices = exposed_of_type(ep, device)[:1] if device else ep.exposed
    if device and not rated_devices:  # C2: also where the EP exposes none
        return device_rejection(ep, device)
    info = _text(constraints.ep_compatibility_info)
    rating = CompiledModelCompatibility.NOT_APPLICABLE
    if info and rated_devices:  # C3; an EP without devices has no factory that could be asked
        try:
            rating = rate(rated_devices, info)
        except Exception as error:  # noqa: BLE001 - foreign code; whatever it raises, the release drops the variant
            return ReleaseJudgement(
                code=ReasonCode.COMPATIBILITY_CHECK_FAILED,
                reason=(
                    f"{ep.name} failed to judge its compatibility string, and so it is dropped:"
                    f" {quoted(error)}"
                ),
            )
    if rating is CompiledModelCompatibility.UNSUPPORTED:
        return unsupported(ep, info)
    score = SCORES.get(rating, UNKNOWN_RATING_SCORE)  # C4
    return ReleaseJudgement(
        score=score, device=device, compatibility=rating, notes=rating_notes(rating)
    )


def _ep_rejection(named: str, ep: SelectingEp) -> ReleaseJudgement | None:
    """C1: reject a variant that does not name the EP; names are compared in full, with case."""
    if named == ep.name:
        return None
    if not named:
        return ReleaseJudgement(
            code=ReasonCode.EP_UNSET,
            reason="it names no EP, and only variants that do are selected",
        )
    reason = f"it is for {quoted(named)}; only {ep.name} is tried"
    if resolve_ep_name(named) == ep.name:
        reason += ", and names are compared letter by letter"
    return ReleaseJudgement(code=ReasonCode.EP_MISMATCH, reason=reason)


def _text(text: str | None) -> str:
    """Return a text as C functions see it: up to a NUL; "" if nothing is stated."""
    return until_nul(text or "")


def _written_order(constraints_by_name: Mapping[str, Constraints]) -> list[str]:
    """C5: keep the order, since only a strictly greater score replaces an earlier variant."""
    return list(constraints_by_name)


COMPONENT_RULES_1_31 = ReleaseRules(
    release="onnxruntime 1.31",
    criteria=("score", "declaration order", "EP device order"),
    constraints_of=lambda variant: variant.component_constraints,
    selecting_ep=_selecting_ep,
    without_ep="",
    names_end_at_nul=True,
    exposes_cpu=False,
    judge=_judge,
    order=_written_order,
    observed_tie=None,
)
COMPONENT_RULES_1_32 = replace(COMPONENT_RULES_1_31, release="onnxruntime 1.32", exposes_cpu=True)
