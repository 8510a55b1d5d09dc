"""Inputs and results of measuring: the plan, the workload, and the outcome of each candidate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy.typing as npt

from ortpkg.selection.matching.measurements import QuarantineCause
from ortpkg.selection.measuring.accuracy import Distance
from ortpkg.selection.measuring.bench_candidate import BenchCandidate
from ortpkg.selection.measuring.run_statistics import RunTimes

Feed = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Amount and limits of a measurement.

    Attributes:
        repeat, duration_s: least number of timed runs of each candidate, and least seconds for
            them, over all rounds.
        rounds: child processes per candidate.
        most_s: seconds after which a candidate's timed runs end, over all rounds, but not before
            one run per round.
        timeout_s: seconds after which a child is ended.
        threads: number of threads of every backend.
        memory_limit_nbytes: most bytes of a child before it is ended; None: no limit.
        patience_s, generous_nbytes: limits that are enough for any variant, so that exceeding them
            is its fault: it hangs, or it fails. Exceeding a narrower limit, which somebody chose,
            is not.
        check_s: most seconds for comparing a candidate's outputs.
        batch_rows: numbers of rows, the smallest first, whose runs are also timed, in a candidate's
            first round, if its inputs and outputs leave that open.
    """

    repeat: int = 30
    duration_s: float = 1.0
    rounds: int = 3
    most_s: float = 30.0
    timeout_s: float = 120.0
    threads: int = 1
    memory_limit_nbytes: int | None = None
    patience_s: float = 120.0
    generous_nbytes: int | None = None
    check_s: float = 10.0
    batch_rows: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Inputs for a component's candidates, with the expected outputs.

    Attributes:
        feeds: inputs of each run, used in turn.
        expected: outputs per feed, as many as feeds; empty if unknown.
        has_tolerances: True if the candidates' tolerances apply; otherwise only the distance is
            reported.
        description: origin of feeds and expected outputs, for people.
        sample_set: name of the first sample set; "" for none.
        is_synthetic: True if the model may not accept such feeds, so that an error in a run does
            not count against it.
    """

    feeds: Sequence[Feed]
    expected: Sequence[Feed] = ()
    has_tolerances: bool = True
    description: str = ""
    is_synthetic: bool = False
    sample_set: str = ""


class Outcome(StrEnum):
    """End of a candidate's measurement."""

    MEASURED = "measured"
    WRONG_OUTPUT = "wrong output"
    CRASHED = "crashed"
    HUNG = "hung"
    FAILED = "failed"
    OVER_LIMIT = "over the limit"
    FELL_BACK = "fell back"
    SKIPPED = "skipped"
    INTERRUPTED = "not measured"


#: Outcomes that count against a variant; others are nobody's fault, or not this variant's.
CAUSES: Mapping[Outcome, QuarantineCause] = {
    Outcome.WRONG_OUTPUT: QuarantineCause.WRONG_OUTPUT,
    Outcome.CRASHED: QuarantineCause.CRASH,
    Outcome.HUNG: QuarantineCause.HANG,
    Outcome.FAILED: QuarantineCause.ERROR,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateResult:
    """Result of one candidate.

    Attributes:
        candidate: the candidate.
        outcome: end of the measurement.
        reason: one sentence, unless it was simply measured.
        is_held_against: True if the failure counts against the variant (quarantine).
        times: times of the timed runs; None if there were none.
        cold_start_s: median seconds from the start of the process to a session, with the files in
            the system's cache.
        session_creation_s, first_run_s: medians in seconds.
        peak_memory_nbytes: maximum over all rounds, above that of a process that has loaded
            nothing; None if unknown.
        gpu_memory_nbytes: maximum over all rounds, at the end of the runs; None if unknown.
        distance: distance from the expected outputs; None if there are none.
        compared: number of feeds that were compared.
        batch_times: (rows, seconds of one run with so many rows), the fewest rows first.
    """

    candidate: BenchCandidate
    outcome: Outcome
    reason: str = ""
    is_held_against: bool = False
    times: RunTimes | None = None
    cold_start_s: float = 0.0
    session_creation_s: float = 0.0
    first_run_s: float = 0.0
    peak_memory_nbytes: int | None = None
    gpu_memory_nbytes: int | None = None
    distance: Distance | None = None
    compared: int = 0
    batch_times: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Progress of measuring: before a candidate runs in a round, or at the end.

    Attributes:
        done, total: number of finished runs of children, and of all.
        candidate: the candidate; None at the end.
        round_number: number of the round.
    """

    done: int
    total: int
    candidate: BenchCandidate | None
    round_number: int = 0


OnStep = Callable[[Step], None]
