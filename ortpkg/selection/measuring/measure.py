"""Measure candidates, each in a child process, all in every round, so that noise affects all alike.

In each round the order starts at another candidate, so that none always runs after the same
neighbour.
"""

from __future__ import annotations

import statistics
import tempfile
import time
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy.typing as npt

from ortpkg.foundations.errors import quoted, unquoted
from ortpkg.foundations.isolation.child import ChildOutcome, ChildResult, call_in_child
from ortpkg.foundations.quantities import amount_text, limit_text, time_limit_text
from ortpkg.package.formats.samples import Tolerance
from ortpkg.selection.measuring.accuracy import Distance, default_tolerance, distance, farthest
from ortpkg.selection.measuring.bench_candidate import BenchCandidate
from ortpkg.selection.measuring.exchanged_arrays import arrays_nbytes, read_arrays, write_arrays
from ortpkg.selection.measuring.measured_candidates import (
    CandidateResult,
    Feed,
    OnStep,
    Outcome,
    Plan,
    Step,
    Workload,
)
from ortpkg.selection.measuring.output_variation import variation_fault
from ortpkg.selection.measuring.run_statistics import run_times
from ortpkg.selection.measuring.task_check import check_task

_FUNCTION = "ortpkg.selection.measuring.child_worker:measure"

#: No child is started after earlier ones have taken this many timeouts without an answer.
_MOST_TIMEOUTS = 10
_UNREADABLE = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    MemoryError,
    zipfile.BadZipFile,
)

#: Tolerance of an output that is judged by its answers instead of its numbers.
_ANY = Tolerance(absolute=1e300)
#: Outcomes of children that were ended from outside.
_WITHOUT_ANSWER = frozenset({Outcome.HUNG, Outcome.OVER_LIMIT})
_OUTCOMES: Mapping[ChildOutcome, Outcome] = {
    ChildOutcome.CRASHED: Outcome.CRASHED,
    ChildOutcome.NO_RESULT: Outcome.CRASHED,
    ChildOutcome.TIMED_OUT: Outcome.HUNG,
    ChildOutcome.RAISED: Outcome.FAILED,
    ChildOutcome.TOO_MUCH_OUTPUT: Outcome.FAILED,
    ChildOutcome.TOO_MUCH_MEMORY: Outcome.FAILED,
    ChildOutcome.NOT_STARTED: Outcome.SKIPPED,
}


@dataclass(kw_only=True)
class _Progress:
    """State of a candidate's measurement."""

    candidate: BenchCandidate
    rounds: list[dict[str, Any]] = field(default_factory=list)
    ended: CandidateResult | None = None
    distance: Distance | None = None
    compared: int = 0

    def is_done(self) -> bool:
        """Return True if nothing more is to be measured."""
        return self.ended is not None


def measure_candidates(
    candidates: Sequence[BenchCandidate],
    workloads: Mapping[str, Workload],
    plan: Plan,
    on_step: OnStep = lambda _step: None,
) -> tuple[tuple[CandidateResult, ...], bool]:
    """Measure all candidates; return a result for each, and True if Ctrl-C ended it early.

    What was measured by then is kept. ``workloads``: component → workload, for each component of
    the candidates.
    """
    states = [
        _Progress(candidate=candidate, ended=_without_child(candidate)) for candidate in candidates
    ]
    was_interrupted = False
    with tempfile.TemporaryDirectory(prefix="ortpkg-bench-") as folder:
        try:
            _run_rounds(states, workloads, plan, Path(folder), on_step)
        except KeyboardInterrupt:
            was_interrupted = True
    return tuple(_result_of(state) for state in states), was_interrupted


def run_once(
    candidate: BenchCandidate, workload: Workload, plan: Plan
) -> tuple[CandidateResult, list[dict[str, npt.NDArray[Any]]]]:
    """Load a candidate in a child process and run each feed once, untimed.

    Return result and outputs.
    """
    state = _Progress(candidate=candidate, ended=_without_child(candidate))
    outputs: list[dict[str, npt.NDArray[Any]]] = []
    if state.ended is None:
        with tempfile.TemporaryDirectory(prefix="ortpkg-bench-") as folder:
            feeds = Path(folder, "feeds.npz")
            write_arrays(feeds, workload.feeds)
            outputs = _measure(
                state, workload, replace(plan, repeat=0), feeds, Path(folder, "outputs.npz")
            )
    return _result_of(state), outputs


def _without_child(candidate: BenchCandidate) -> CandidateResult | None:
    if candidate.obstacle:
        return CandidateResult(
            candidate=candidate, outcome=Outcome.SKIPPED, reason=candidate.obstacle
        )
    return None


def _run_rounds(
    states: Sequence[_Progress],
    workloads: Mapping[str, Workload],
    plan: Plan,
    folder: Path,
    on_step: OnStep,
) -> None:
    files = {}
    for number, (component, workload) in enumerate(workloads.items()):
        files[component] = folder / f"feeds{number}.npz"
        write_arrays(files[component], workload.feeds)
    total = plan.rounds * sum(state.ended is None for state in states)
    done, lost_s = 0, 0.0
    for round_number in range(plan.rounds):
        first = round_number * len(states) // plan.rounds
        for state in (*states[first:], *states[:first]):
            if state.is_done():
                continue
            if lost_s > _MOST_TIMEOUTS * plan.timeout_s:
                state.ended = _not_started(state.candidate, lost_s)
                continue
            began_s = time.monotonic()
            component = state.candidate.component_name
            on_step(
                Step(
                    done=done, total=total, candidate=state.candidate, round_number=round_number + 1
                )
            )
            _measure(state, workloads[component], plan, files[component], folder / "outputs.npz")
            done += 1
            if state.ended is not None and state.ended.outcome in _WITHOUT_ANSWER:
                lost_s += time.monotonic() - began_s
            if state.is_done():
                total -= plan.rounds - round_number - 1
    on_step(Step(done=done, total=total, candidate=None))


def _not_started(candidate: BenchCandidate, lost_s: float) -> CandidateResult:
    reason = (
        "not measured: over the limit: other variants have given no answer for"
        f" {time_limit_text(round(lost_s, 1))} in all; measure this one alone (--variant)"
    )
    return CandidateResult(candidate=candidate, outcome=Outcome.OVER_LIMIT, reason=reason)


def _measure(
    state: _Progress, workload: Workload, plan: Plan, feeds: Path, outputs: Path
) -> list[dict[str, npt.NDArray[Any]]]:
    """Run one child, add its results to ``state``, and return the outputs of its first feeds."""
    is_checked = not state.rounds and bool(workload.expected or not plan.repeat)
    outputs.unlink(missing_ok=True)
    arguments = {
        "session": state.candidate.session_arguments(plan.threads),
        "feeds": str(feeds),
        "outputs": str(outputs),
        "checked": len(workload.feeds) if is_checked else 0,
        "check_s": plan.check_s,
        "batch_rows": [] if state.rounds or not plan.repeat else list(plan.batch_rows),
        "repeat": -(-plan.repeat // plan.rounds),
        "duration_s": plan.duration_s / plan.rounds,
        "most_s": plan.most_s / plan.rounds,
        "timeout_s": plan.timeout_s,
        "spawned_ns": time.monotonic_ns(),
    }
    answer = call_in_child(
        _FUNCTION, arguments, timeout_s=plan.timeout_s, memory_limit_nbytes=plan.memory_limit_nbytes
    )
    failure = _over_limit(state.candidate, plan, answer) or _failure_of(
        state.candidate, workload, answer
    )
    if failure is not None:
        state.ended = failure
        return []
    state.rounds.append(answer.value)
    if not is_checked:
        return []
    try:
        state.ended = _too_large(state.candidate, plan, arrays_nbytes(outputs))
        if state.ended is not None:
            return []
        actual = read_arrays(outputs)
    except _UNREADABLE as error:
        state.ended = _held_against(
            state.candidate, Outcome.CRASHED, f"its outputs cannot be read: {quoted(error)}"
        )
        return []
    if workload.expected:
        _compare(state, workload, actual)
    return actual


def _too_large(
    candidate: BenchCandidate, plan: Plan, outputs_nbytes: int
) -> CandidateResult | None:
    """Return the result of a candidate whose outputs exceed the memory limit; None if they fit.

    This process does not read more than a child may use.
    """
    limit_nbytes = plan.memory_limit_nbytes
    if limit_nbytes is None or outputs_nbytes <= limit_nbytes:
        return None
    reason = (
        f"not measured: over the limit: its outputs take {amount_text(outputs_nbytes)}, more than"
        f" the memory limit of {limit_text(limit_nbytes)}; it is not quarantined"
    )
    return CandidateResult(candidate=candidate, outcome=Outcome.OVER_LIMIT, reason=reason)


def _over_limit(
    candidate: BenchCandidate, plan: Plan, answer: ChildResult
) -> CandidateResult | None:
    """Return the result of a candidate that exceeded a narrow limit of the caller; None otherwise.

    Such a limit says nothing against the variant.
    """
    limit_nbytes, generous_nbytes = plan.memory_limit_nbytes, plan.generous_nbytes
    is_narrow = {
        ChildOutcome.TIMED_OUT: plan.timeout_s < plan.patience_s,
        ChildOutcome.TOO_MUCH_MEMORY: (
            limit_nbytes is not None
            and generous_nbytes is not None
            and limit_nbytes < generous_nbytes
        ),
    }
    if not is_narrow.get(answer.outcome, False):
        return None
    reason = f"not measured: over the limit: {answer.reason}; it is not quarantined"
    return CandidateResult(candidate=candidate, outcome=Outcome.OVER_LIMIT, reason=reason)


def _failure_of(
    candidate: BenchCandidate, workload: Workload, answer: ChildResult
) -> CandidateResult | None:
    outcome = _OUTCOMES.get(answer.outcome)
    if outcome is Outcome.SKIPPED:
        return CandidateResult(candidate=candidate, outcome=outcome, reason=answer.reason)
    if outcome is not None:
        return _held_against(candidate, outcome, answer.reason)
    value = answer.value
    if isinstance(value, dict) and "refused" in value:
        return CandidateResult(
            candidate=candidate, outcome=Outcome.SKIPPED, reason=str(value["refused"])
        )
    if isinstance(value, dict) and "unreadable" in value:
        reason = (
            f"{unquoted(value['unreadable'])}; no backend is to blame, so it is not quarantined"
        )
        return CandidateResult(candidate=candidate, outcome=Outcome.FAILED, reason=reason)
    if not isinstance(value, dict) or "session_creation_s" not in value:
        return _held_against(
            candidate, Outcome.CRASHED, "its child process gave something else than a measurement"
        )
    if value.get("fell_back"):
        reason = (
            f"{candidate.ep_device.ep_name} took no node of it; there would run"
            f" {unquoted(value['fell_back'])}"
        )
        return CandidateResult(candidate=candidate, outcome=Outcome.FELL_BACK, reason=reason)
    if "failed" not in value:
        return None
    reason = f"a run raised {quoted(value['failed'])}"
    if value.get("is_feed_to_blame"):
        return CandidateResult(
            candidate=candidate, outcome=Outcome.FAILED, reason=f"{reason}; it is not quarantined"
        )
    if workload.is_synthetic:
        reason += "; synthetic inputs may be to blame, so it is not quarantined"
        return CandidateResult(candidate=candidate, outcome=Outcome.FAILED, reason=reason)
    return _held_against(candidate, Outcome.FAILED, reason)


def _held_against(candidate: BenchCandidate, outcome: Outcome, reason: str) -> CandidateResult:
    return CandidateResult(
        candidate=candidate, outcome=outcome, reason=reason, is_held_against=True
    )


def _compare(state: _Progress, workload: Workload, actual: Sequence[Mapping[str, Any]]) -> None:
    candidate, has_tolerances = state.candidate, workload.has_tolerances
    pairs = list(zip(actual, workload.expected, strict=False))
    tasks = [
        check_task(
            task,
            [outputs.get(name) for outputs, expected in pairs if name in expected],
            [expected[name] for _, expected in pairs if name in expected],
        )
        for name, task in (candidate.tasks.items() if has_tolerances else ())
    ]
    distances = [
        distance(
            outputs,
            judged_outputs,
            _tolerances(candidate, judged_outputs) if has_tolerances else None,
        )
        for outputs, expected in pairs
        if (judged_outputs := _numbers_of(expected, candidate))
    ]
    state.distance = farthest(distances)
    state.compared = len(pairs)
    failed = [task_result.text for task_result in tasks if task_result.is_within is False]
    if has_tolerances and state.distance.is_within is not False:
        failed += _variation_faults(candidate, pairs)
    if failed:
        state.distance = replace(state.distance, is_within=False, what="; ".join(failed))
    if state.distance.is_within is False:
        failure = state.distance.what or "its outputs are not those expected"
        state.ended = replace(
            _result_of(state),
            outcome=Outcome.WRONG_OUTPUT,
            reason=f"{failure}{_allowing_command(candidate, workload)}",
            is_held_against=not workload.is_synthetic,
        )


def _variation_faults(
    candidate: BenchCandidate, pairs: Sequence[tuple[Mapping[str, Any], Feed]]
) -> list[str]:
    """Return how outputs without a tolerance or task of their own vary otherwise than expected."""
    names = {name for _, expected in pairs for name in expected}
    faults = []
    for name in sorted(names - candidate.tolerances.keys() - candidate.tasks.keys()):
        both = [
            (outputs.get(name), expected[name]) for outputs, expected in pairs if name in expected
        ]
        actual, wanted = zip(*both, strict=True)
        faults.append(variation_fault(name, actual, wanted, candidate.precision))
    return [fault for fault in faults if fault]


def _numbers_of(expected: Feed, candidate: BenchCandidate) -> Feed:
    """Return the outputs with a distance, without texts whose answers decide."""
    return {
        name: array
        for name, array in expected.items()
        if name not in candidate.tasks or array.dtype.kind not in "OUS"
    }


def _allowing_command(candidate: BenchCandidate, workload: Workload) -> str:
    """Return the command that states another tolerance, if samples are compared."""
    if not workload.has_tolerances or not workload.sample_set:
        return ""
    return (
        f"; if its answers are right, ortpkg samples add PKG --name {unquoted(workload.sample_set)}"
        f" --variant {unquoted(candidate.variant_name)} states another --tolerance, or a --task"
    )


def _tolerances(candidate: BenchCandidate, expected: Feed) -> dict[str, Tolerance]:
    """Return the tolerance of each output; any difference is allowed if its answers decide."""
    return {
        name: (
            _ANY
            if name in candidate.tasks
            else candidate.tolerances.get(name) or default_tolerance(array, candidate.precision)
        )
        for name, array in expected.items()
    }


def _result_of(state: _Progress) -> CandidateResult:
    if state.ended is not None:
        return state.ended
    rounds = state.rounds
    if not rounds:
        return CandidateResult(
            candidate=state.candidate,
            outcome=Outcome.INTERRUPTED,
            reason="interrupted before its first round",
        )
    times = [record["times_ns"] for record in rounds if record.get("times_ns")]
    return CandidateResult(
        candidate=state.candidate,
        outcome=Outcome.MEASURED,
        reason=(
            f"not all of it ran there: {unquoted(rounds[0]['beside'])}"
            if rounds[0].get("beside")
            else ""
        ),
        times=run_times(times) if times else None,
        cold_start_s=_median(rounds, "cold_start_s"),
        session_creation_s=_median(rounds, "session_creation_s"),
        first_run_s=_median(rounds, "first_run_s"),
        peak_memory_nbytes=_most(rounds, "peak_memory_nbytes"),
        gpu_memory_nbytes=_most(rounds, "gpu_memory_nbytes"),
        distance=state.distance,
        compared=state.compared,
        batch_times=tuple((rows, time_s) for rows, time_s in rounds[0].get("batch_times", ())),
    )


def _median(rounds: Sequence[Mapping[str, Any]], key: str) -> float:
    return float(statistics.median(record[key] for record in rounds))


def _most(rounds: Sequence[Mapping[str, Any]], key: str) -> int | None:
    return max((record[key] for record in rounds if record.get(key) is not None), default=None)
