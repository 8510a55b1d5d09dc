"""Times several ways to do one thing in turns, so that noise hits all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """What one contender took.

    Attributes:
        median_s: of its calls.
        least_ratio: its fastest call's time / the baseline's fastest, which other work on the
            machine changes least.
        ratio: median over the rounds of (its time / the baseline's time in the same round).
        ratio_low, ratio_high: the middle half of these ratios.
        added_s: median over the rounds of (its time - the baseline's time in the same round).
        added_low_s, added_high_s: the middle half of these differences.
    """

    median_s: float
    least_ratio: float
    ratio: float
    ratio_low: float
    ratio_high: float
    added_s: float
    added_low_s: float
    added_high_s: float


def time_in_turns(
    contenders: Mapping[str, Callable[[], object]],
    *,
    baseline: str,
    budget_s: float = 2.0,
    least_rounds: int = 7,
    settle_s: float = 0.0,
) -> dict[str, Timing]:
    """Calls contenders in rounds until time is up, or ``least_rounds`` times at least.

    Before that, each is called twice to warm up. ``baseline`` names the contender that the ratios
    refer to. With ``settle_s`` each call has that pause before it, and untimed calls to wake its
    own threads again: threads of another contender that wait awake for their next work (OpenBLAS's
    for some 30 ms) would slow it down, and not count for it.
    """
    for call in contenders.values():
        call()
        call()
    times: dict[str, list[float]] = {name: [] for name in contenders}
    end = time.perf_counter() + budget_s
    rounds = 0
    while rounds < least_rounds or time.perf_counter() < end:
        for name, call in contenders.items():
            if settle_s:
                time.sleep(settle_s)
                wake(call)
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
        rounds += 1
    return {name: _timing(own, times[baseline]) for name, own in times.items()}


def wake(call: Callable[[], object]) -> None:
    """Calls until a contender is in steady use: three times, or a fiftieth of a second."""
    end = time.perf_counter() + 0.02
    for _ in range(3):
        call()
        if time.perf_counter() > end:
            return


def _timing(own: list[float], base: list[float]) -> Timing:
    ratios = sorted(mine / theirs for mine, theirs in zip(own, base, strict=True))
    added = sorted(mine - theirs for mine, theirs in zip(own, base, strict=True))
    quarter = len(ratios) // 4
    return Timing(
        median_s=statistics.median(own),
        least_ratio=min(own) / min(base),
        ratio=statistics.median(ratios),
        ratio_low=ratios[quarter],
        ratio_high=ratios[-1 - quarter],
        added_s=statistics.median(added),
        added_low_s=added[quarter],
        added_high_s=added[-1 - quarter],
    )
