"""Medians, percentiles and spread of run times; nothing is measured here."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

_RANGES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimes:
    """Times of many runs in several rounds, in seconds.

    Attributes:
        p50_s, p95_s: median and 95th percentile of all runs (nearest rank).
        lowest_s, highest_s: least and greatest median of a round, which show the machine's noise.
            This benchmark cannot distinguish two candidates whose intervals overlap.
        throughput_per_s: runs per second, one after the other.
        count: number of runs.
        fastest_s: time of the fastest run.
        histogram: number of runs in each of 12 equal ranges of time between ``fastest_s`` and
            ``p95_s``; longer ones are left out, since one of them would hide the rest.
    """

    p50_s: float
    p95_s: float
    lowest_s: float
    highest_s: float
    throughput_per_s: float
    count: int
    fastest_s: float
    histogram: tuple[int, ...]


def run_times(rounds: Sequence[Sequence[int]]) -> RunTimes:
    """Summarize rounds of run times in nanoseconds.

    There must be at least one round, and one run in each.
    """
    together = sorted(time_ns for times in rounds for time_ns in times)
    medians = [statistics.median(times) for times in rounds]
    return RunTimes(
        p50_s=statistics.median(together) / 1e9,
        p95_s=_nearest_rank(together, 95) / 1e9,
        lowest_s=min(medians) / 1e9,
        highest_s=max(medians) / 1e9,
        throughput_per_s=len(together) / max(sum(together) / 1e9, 1e-12),
        count=len(together),
        fastest_s=together[0] / 1e9,
        histogram=_histogram(together, _nearest_rank(together, 95)),
    )


def _histogram(ordered: Sequence[int], greatest: int) -> tuple[int, ...]:
    """Count the values in equal ranges from the least one to ``greatest``."""
    counts = [0] * _RANGES
    least = ordered[0]
    for value in ordered:
        if value <= greatest:
            share = (value - least) / max(greatest - least, 1)
            counts[min(int(share * _RANGES), _RANGES - 1)] += 1
    return tuple(counts)


def _nearest_rank(ordered: Sequence[int], percent: int) -> int:
    return ordered[max(0, -(-percent * len(ordered) // 100) - 1)]
