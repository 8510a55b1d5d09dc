"""Select a variant: judge every variant on every EP device, rank the eligible ones, explain.

The same arguments give the same selection; no file is opened. Selection knows nothing of the
package's files: all that it needs comes in as arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ortpkg.foundations.documents.frozen import LazyTuple
from ortpkg.foundations.errors import quoted
from ortpkg.package.package_info import ComponentInfo
from ortpkg.runtime.providers.ep_factory import CompiledModelCompatibility
from ortpkg.selection.matching.candidate import Candidate, best_first
from ortpkg.selection.matching.compiled_speed import speed_reason
from ortpkg.selection.matching.judging import Judges
from ortpkg.selection.matching.ranking import (
    CRITERIA,
    MEASURED_CRITERIA,
    deciding_criterion,
    numbers_for,
)
from ortpkg.selection.matching.reasons import lower_rank_reason
from ortpkg.selection.matching.request import SelectionRequest
from ortpkg.selection.matching.selection_warnings import selection_warnings
from ortpkg.selection.matching.verdict import ReasonCode, Selection, Verdict


def select_ep_devices(component: ComponentInfo, request: SelectionRequest) -> Selection:
    """Return the best pair of a variant of ``component`` and an EP device, with all verdicts.

    If nothing fits, ``best`` is None; that is no error.
    """
    judges = Judges(component, request)
    winner = judges.winner()
    criteria = MEASURED_CRITERIA if request.policy.uses_measurements else CRITERIA
    best = None if winner is None else _eligible_verdict(winner, winner, criteria)
    return Selection(
        component_name=component.name,
        policy=request.policy.name,
        verdicts=LazyTuple(partial(_all_verdicts, judges, winner, best, criteria)),
        criteria=criteria,
        best=best,
        device=None if request.device is None else request.device.value,
        ep=request.ep,
        backend=request.backend,
        check_architecture=request.check_architecture,
        provider_options=request.provider_options,
        limits=request.limits.described(),
        machine=request.machine,
        ties=() if winner is None else LazyTuple(partial(judges.tied_with, winner)),
        hardware=request.hardware,
        ep_devices=request.ep_devices,
        warnings=(*request.notes, *selection_warnings(component.name, judges, winner, request)),
    )


# --- verdicts -------------------------------------------------------------------------------------


def _all_verdicts(
    judges: Judges, winner: Candidate | None, best: Verdict | None, criteria: Sequence[str]
) -> tuple[Verdict, ...]:
    """Return the verdicts, the best first; rejections last, in declaration order."""
    candidates = list(judges.candidates())
    rejections = (_rejection(candidate) for candidate in candidates if candidate.rank is None)
    if winner is None or best is None:
        return tuple(rejections)
    return (
        best,
        *(
            _eligible_verdict(candidate, winner, criteria)
            for candidate in best_first(candidates)[1:]
        ),
        *rejections,
    )


def _rejection(candidate: Candidate) -> Verdict:
    judgement = candidate.judgement
    assert judgement.code is not None
    return Verdict(
        variant=candidate.variant,
        ep_device=candidate.ep_device,
        code=judgement.code,
        reason=judgement.reason,
        compatibility=judgement.compatibility,
        notes=judgement.notes,
    )


def _eligible_verdict(candidate: Candidate, winner: Candidate, criteria: Sequence[str]) -> Verdict:
    assert candidate.rank is not None
    decided_by = None
    code, reason = ReasonCode.SELECTED, "it is the best of all that can run here"
    if candidate is winner and winner.compared is not None:
        from ortpkg.selection.matching.backend_choice import (
            choice_note,  # only if something was measured
        )

        reason += choice_note(winner)
    elif candidate is not winner:
        assert winner.rank is not None
        assert candidate.ep_device is not None
        assert winner.ep_device is not None
        decided_by = deciding_criterion(candidate.rank, winner.rank)
        which = "it" if candidate.variant is winner.variant else quoted(winner.variant.name)
        code, reason = ReasonCode.LOWER_RANK, _reason_of(candidate, winner, decided_by, which)
        is_old = (
            candidate.judgement.compatibility is CompiledModelCompatibility.PREFER_RECOMPILATION
        )
        if is_old and decided_by == "compatibility":
            code = ReasonCode.PREFERS_RECOMPILATION
    return Verdict(
        variant=candidate.variant,
        ep_device=candidate.ep_device,
        code=code,
        reason=reason,
        compatibility=candidate.judgement.compatibility,
        rank=numbers_for(candidate.rank, criteria),
        decided_by=decided_by,
        notes=candidate.judgement.notes,
    )


def _reason_of(candidate: Candidate, winner: Candidate, decided_by: str, which: str) -> str:
    assert candidate.ep_device is not None
    assert winner.ep_device is not None
    if decided_by == "speed":
        return speed_reason(candidate.speed_reason, which)
    if winner.compared is not None or candidate.compared is not None:
        from ortpkg.selection.matching.backend_choice import choice_reason  # as above

        reason = choice_reason(candidate, winner, decided_by, which)
        if reason:
            return reason
    loser, best = (candidate.ep_device, candidate.judgement), (winner.ep_device, winner.judgement)
    return lower_rank_reason(loser, best, decided_by, which)
