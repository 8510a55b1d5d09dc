"""What measuring takes and gives: how much, on what, and what came out of each candidate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy.typing as npt

from ortpkg.measuring.accuracy import Distance
from ortpkg.measuring.bench_candidate import BenchCandidate
from ortpkg.measuring.run_statistics import RunTimes
from ortpkg.selection.measurements import QuarantineCause

Feed = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is measured.

    Attributes:
        repeat, duration_s: at least so many timed runs of each candidate, for at least so long;
            over all rounds.
        rounds: child processes per candidate.
        most_s: a candidate's timed runs end after so long, over all rounds, but not before one run
            per round.
        timeout_s: a child that takes longer is ended.
        threads: for every backend.
        memory_limit_nbytes: a child that holds more is ended; None: no limit.
        patience_s, generous_nbytes: limits that are as large hold anything that a variant should
            take, so that passing them is its fault: it hangs, or it fails. Passing a narrower one,
            which somebody chose, is not.
        check_s: how long a candidate's outputs are compared.
        batch_rows: numbers of rows, the smallest first, whose runs are timed besides, in a
            candidate's first round, where its inputs and outputs leave that open.
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
    """Inputs that a component's candidates run on, with the expected outputs.

    Attributes:
        feeds: one per run; taken in turn.
        expected: outputs per feed, as many as feeds; empty where nothing is known of them.
        has_tolerances: whether the candidates' tolerances apply; where not, only the distance is
            told.
        description: where feeds and expected outputs come from, for people.
        sample_set: the name of the first sample set that it is of; "" for none.
        is_synthetic: nobody says that the model accepts such feeds, so that a run that raises is
            not held against it.
    """

    feeds: Sequence[Feed]
    expected: Sequence[Feed] = ()
    has_tolerances: bool = True
    description: str = ""
    is_synthetic: bool = False
    sample_set: str = ""


class Outcome(StrEnum):
    """How the measurement of a candidate ended."""

    MEASURED = "measured"
    WRONG_OUTPUT = "wrong output"
    CRASHED = "crashed"
    HUNG = "hung"
    FAILED = "failed"
    OVER_LIMIT = "over the limit"
    FELL_BACK = "fell back"
    SKIPPED = "skipped"
    INTERRUPTED = "not measured"


#: What is held against a variant; the other outcomes are nobody's fault, or not this variant's.
CAUSES: Mapping[Outcome, QuarantineCause] = {
    Outcome.WRONG_OUTPUT: QuarantineCause.WRONG_OUTPUT,
    Outcome.CRASHED: QuarantineCause.CRASH,
    Outcome.HUNG: QuarantineCause.HANG,
    Outcome.FAILED: QuarantineCause.ERROR,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateResult:
    """What came out of one candidate.

    Attributes:
        outcome: how it ended.
        reason: one sentence where it was not simply measured.
        is_held_against: whether the failure counts against the variant (quarantine).
        times: of the timed runs; None where there were none.
        cold_start_s: median, from the start of the process to a session, with the files in the
            system's cache.
        session_creation_s, first_run_s: medians.
        peak_memory_nbytes: most of all rounds, above that of a process that has loaded nothing;
            None where unknown.
        gpu_memory_nbytes: most of all rounds, at the end of the runs; None where unknown.
        distance: from what was expected; None where nothing was.
        compared: over how many feeds.
        batch_times: (rows, seconds of one run of so many), the fewest rows first.
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
    """Progress: before ``candidate`` runs in a round, or (``candidate`` is None) at the end."""

    done: int
    total: int
    candidate: BenchCandidate | None
    round_number: int = 0


OnStep = Callable[[Step], None]
