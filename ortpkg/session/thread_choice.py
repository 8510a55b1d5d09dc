"""All threads or one: what a run gets if its session chooses (``intra_op_num_threads=0``).

OpenBLAS's threads wait for each other by yielding their cores. Where other processes want these
cores too, they do not get them back in time: with two busy processes on two cores, BERT took ten
times as long with two threads as with one. Nothing says beforehand whether a machine is busy, so
runs are timed: the second run of a kind has one thread, and from then on a run with all of them
that takes longer than that makes the session keep to one for a while.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass

#: Shorter runs are left alone: small products have one thread anyhow (kernels/blas_threads.py).
LEAST_S = 0.002
#: How long to keep to one thread at first, and at most: each disappointment doubles it.
FIRST_REST_S, MOST_REST_S = 0.5, 8.0
#: More kinds of runs than this (signatures of input shapes) are not told apart.
_MOST_KINDS = 64


@dataclass(slots=True)
class _Kind:
    """Runs with inputs of the same shapes.

    Attributes:
        is_short: too short to choose for; None until one was timed.
        alone_s: what the last run with one thread took; 0 before one.
        rest_s: how long to keep to one thread, should all be slower again.
        rests_until: by the clock.
    """

    is_short: bool | None = None
    alone_s: float = 0.0
    rest_s: float = FIRST_REST_S
    rests_until: float = 0.0


class ThreadChoice:
    """One session's.

    Runs may overlap in time; then they are what makes the machine busy, and one thread is right.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._kinds: dict[Hashable, _Kind] = {}

    def begin(self, signature: Hashable) -> tuple[_Kind, bool, float]:
        """What :meth:`end` takes: the run's kind, whether it gets one thread, when it began."""
        kind = self._kinds.get(signature)
        if kind is None:
            if len(self._kinds) >= _MOST_KINDS:
                self._kinds.clear()
            kind = self._kinds[signature] = _Kind()
        now = self._clock()
        is_alone = kind.is_short is False and (not kind.alone_s or now < kind.rests_until)
        return kind, is_alone, now

    def end(self, kind: _Kind, is_alone: bool, began: float) -> None:
        """Learns from a run that succeeded."""
        now = self._clock()
        seconds = now - began
        if (
            kind.is_short is None
        ):  # the first run of its kind, which has much to do that later ones have not
            kind.is_short = seconds < LEAST_S
        elif is_alone:
            kind.alone_s = seconds
        elif kind.alone_s and seconds > kind.alone_s:
            kind.rests_until = now + kind.rest_s
            kind.rest_s = min(2 * kind.rest_s, MOST_REST_S)
        elif kind.alone_s:
            kind.rest_s = FIRST_REST_S
