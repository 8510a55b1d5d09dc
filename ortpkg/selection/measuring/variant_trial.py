"""Try a variant in a child process before loading it here: a driver's crash ends the child."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from ortpkg.runtime.providers.machine_offer import MachineOffer
from ortpkg.selection.matching.measurements import (
    QuarantineCause,
    QuarantineEntry,
    versioned_variant,
)
from ortpkg.selection.measuring.bench_candidate import BenchCandidate
from ortpkg.selection.measuring.measure import run_once
from ortpkg.selection.measuring.measured_candidates import (
    CAUSES,
    CandidateResult,
    Outcome,
    Plan,
    Workload,
)
from ortpkg.selection.measuring.record_store import now_text

#: Number of feeds; one run shows whether a backend works.
_MOST_FEEDS = 1
_LONGEST_DETAIL = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryResult:
    """Result of trying a variant: whether it loads, runs, and gives the expected outputs.

    Attributes:
        result: result of the child process.
        cause: reason why it must not run here; None if it may.
        reason: one sentence for people if it may not run, or could not be tried; "" if it passed.
    """

    result: CandidateResult
    cause: QuarantineCause | None = None
    reason: str = ""

    @property
    def has_passed(self) -> bool:
        """True if it was tried and passed."""
        return self.result.outcome is Outcome.MEASURED


def check_variant(candidate: BenchCandidate, workload: Workload, plan: Plan) -> CanaryResult:
    """Create a session in a child process and run the first feed once.

    Outputs are compared as far as the workload has expected ones. A crash, a hang, an error and
    wrong outputs have a cause; a variant that its EP leaves to another one, or that needs trust,
    has none, and has not passed either.
    """
    first = Workload(
        feeds=workload.feeds[:_MOST_FEEDS],
        expected=workload.expected[:_MOST_FEEDS],
        has_tolerances=workload.has_tolerances,
        description=workload.description,
        is_synthetic=workload.is_synthetic,
        sample_set=workload.sample_set,
    )
    result, _ = run_once(candidate, first, plan)
    cause = CAUSES[result.outcome] if result.is_held_against else None
    reason = f"{result.outcome}: {result.reason}" if result.reason else ""
    return CanaryResult(result=result, cause=cause, reason=reason)


def quarantine_entry(result: CandidateResult, offer: MachineOffer) -> QuarantineEntry:
    """Return the quarantine entry for a failure that counts against a variant."""
    candidate = result.candidate
    versioned = versioned_variant(
        candidate.component_name, candidate.variant_name, candidate.ep_device, offer.ep_devices
    )
    return QuarantineEntry(
        **asdict(versioned),
        cause=CAUSES[result.outcome],
        detail=result.reason[:_LONGEST_DETAIL],
        recorded_at=now_text(),
    )
