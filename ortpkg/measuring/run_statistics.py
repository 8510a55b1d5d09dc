"""Medians, percentiles and spread of run times. Nothing is measured here."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimes:
    """The times of many runs in several rounds, in seconds.

    Attributes:
        p50_s, p95_s: of all runs together (nearest rank).
        lowest_s, highest_s: the least and the greatest of the rounds' medians: what the machine's
            noise amounts to. Two candidates whose intervals overlap are not told apart by this
            benchmark.
        throughput_per_s: runs per second, one after the other.
        count: how many runs.
    """

    p50_s: float
    p95_s: float
    lowest_s: float
    highest_s: float
    throughput_per_s: float
    count: int


def run_times(rounds: Sequence[Sequence[int]]) -> RunTimes:
    """Sums up rounds of run times in nanoseconds: one round or more, each of one run or more."""
    together = sorted(time_ns for times in rounds for time_ns in times)
    medians = [statistics.median(times) for times in rounds]
    return RunTimes(
        p50_s=statistics.median(together) / 1e9,
        p95_s=_nearest_rank(together, 95) / 1e9,
        lowest_s=min(medians) / 1e9,
        highest_s=max(medians) / 1e9,
        throughput_per_s=len(together) / max(sum(together) / 1e9, 1e-12),
        count=len(together),
    )


def _nearest_rank(ordered: Sequence[int], percent: int) -> int:
    return ordered[max(0, -(-percent * len(ordered) // 100) - 1)]
