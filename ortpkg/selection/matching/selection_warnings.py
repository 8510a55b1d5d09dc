"""Warnings of a selection: unused records, variants passed over, doubts about the winner."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ortpkg.foundations.ep_names import CPU_EP
from ortpkg.foundations.errors import quoted, unquoted
from ortpkg.package.derived_variants import compiled_unseen
from ortpkg.runtime.providers.ep_factory import CompiledModelCompatibility
from ortpkg.selection.matching.candidate import Candidate
from ortpkg.selection.matching.judging import Judges
from ortpkg.selection.matching.matches_variant import Requirements
from ortpkg.selection.matching.reasons import ep_device_label
from ortpkg.selection.matching.request import SelectionRequest
from ortpkg.selection.matching.verdict import ReasonCode

_MOST_LACKING = 3


def selection_warnings(
    component_name: str, judges: Judges, winner: Candidate | None, request: SelectionRequest
) -> Iterable[str]:
    """Yield the warnings, one sentence each, the most surprising first."""
    recorded = list(judges.recorded())
    yield from _record_warnings(recorded, winner, request)
    yield from _passed_over(recorded)
    if winner is not None:
        better = [
            candidate
            for candidate in judges.lacking.values()
            if candidate.variant is not winner.variant
        ]
        yield from map(_passed_over_text, better[:_MOST_LACKING])
        yield from _winner_warnings(winner)
    if not (request.is_narrowed or any(map(_covers_cpu, judges.requirements.values()))):
        # Without a variant for a bare CPU, machines without accelerators can run nothing.
        name = quoted(component_name)
        yield (
            f"no variant of component {name} covers a CPU: nothing fits a machine without"
            " accelerators"
        )


def _record_warnings(
    recorded: Sequence[Candidate], winner: Candidate | None, request: SelectionRequest
) -> Iterable[str]:
    """Yield problems of the records.

    If measurements were asked for, that includes missing ones.
    """
    limits, records = request.limits, request.records
    if records is not None and records.problem:
        yield records.problem
    if not (
        request.policy.uses_measurements
        or limits.max_latency_s is not None
        or limits.max_error is not None
    ):
        return
    then = "; the order is that of policy default" if request.policy.uses_measurements else ""
    if records is not None and records.stale_reason:
        why = unquoted(records.stale_reason)
        what = (
            "the measurements are stale"
            if records.measurements
            else "what was measured here cannot be used"
        )
        yield f"{what} ({why}): measure again with ortpkg bench{then}"
    elif not any(candidate.judgement.measurement for candidate in recorded):
        yield f"nothing was measured on this machine (ortpkg bench does){then}"
    elif (
        request.policy.uses_measurements
        and winner is not None
        and winner.judgement.measurement is None
    ):
        yield (
            f"variant {quoted(winner.variant.name)} was not measured on this machine: what was"
            " measured is rejected"
        )


def _passed_over(recorded: Sequence[Candidate]) -> Iterable[str]:
    """Yield variants that could run here, but failed before."""
    for candidate in recorded:
        judgement = candidate.judgement
        if judgement.code in {ReasonCode.QUARANTINED, ReasonCode.CANARY_FAILED}:
            yield _passed_over_text(candidate)


def _passed_over_text(candidate: Candidate) -> str:
    name, label = quoted(candidate.variant.name), ep_device_label(candidate.ep_device)
    return (
        f"variant {name} is passed over on {label}: {candidate.judgement.code}:"
        f" {candidate.judgement.reason}"
    )


def _winner_warnings(winner: Candidate) -> Iterable[str]:
    judgement, name = winner.judgement, quoted(winner.variant.name)
    yield from (f"variant {name}: {note}" for note in judgement.unchecked)
    if device := compiled_unseen(winner.variant):
        yield (
            f"variant {name} was compiled for {unquoted(device)} on a machine without it: its first"
            " use here tries it in a child process"
        )
    if judgement.compatibility is CompiledModelCompatibility.PREFER_RECOMPILATION:
        why = judgement.why_recompile
        yield (
            f"variant {name} runs, and would be better recompiled: {why}"
            if why
            else f"variant {name} was compiled for an older version: it runs, and would be better"
            " recompiled"
        )
    if (
        judgement.compatibility is CompiledModelCompatibility.UNKNOWN
        and winner.ep_device is not None
    ):
        ep = winner.ep_device.ep_name
        rating = judgement.compatibility.value
        yield (
            f"variant {name}: whether {ep} takes its compatibility string cannot be told here"
            f" ({rating})"
        )


def _covers_cpu(requirements: Requirements) -> bool:
    return requirements.device == "cpu" or (
        requirements.device is None and requirements.ep in {None, CPU_EP}
    )
