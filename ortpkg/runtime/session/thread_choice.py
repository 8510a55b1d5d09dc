"""Choose all threads or one for a run of a session with ``intra_op_num_threads=0``.

OpenBLAS's threads wait for each other by yielding their cores. If other processes want these cores
too, the threads do not get them back in time: with two busy processes on two cores, BERT took ten
times as long with two threads as with one. Nothing tells beforehand whether a machine is busy, so
runs are timed: the second run of a kind has one thread; when a later run with all threads takes
longer than that, the session keeps to one thread for a while.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass

#: Shorter runs are left alone: small products have one thread anyhow
#: (runtime/kernels/blas_threads.py).
LEAST_S = 0.002
#: Seconds to keep to one thread, at first and at most: each failed try with all threads doubles it.
FIRST_REST_S, MOST_REST_S = 0.5, 8.0
#: Most kinds of runs (signatures of input shapes) that are remembered.
_MOST_KINDS = 64


@dataclass(slots=True)
class _Kind:
    """Timings of runs with inputs of the same shapes.

    Attributes:
        is_short: True if too short to choose for; None until one was timed.
        alone_s: duration of the last run with one thread; 0 before one.
        rest_s: seconds to keep to one thread when all threads are slower again.
        rests_until: end of that time, by the clock.
    """

    is_short: bool | None = None
    alone_s: float = 0.0
    rest_s: float = FIRST_REST_S
    rests_until: float = 0.0


class ThreadChoice:
    """Thread choice of one session.

    Runs may overlap; then they themselves keep the machine busy, and one thread is right.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._kinds: dict[Hashable, _Kind] = {}

    def begin(self, signature: Hashable) -> tuple[_Kind, bool, float]:
        """Return the run's kind, whether it gets one thread, and its start, for :meth:`end`."""
        kind = self._kinds.get(signature)
        if kind is None:
            if len(self._kinds) >= _MOST_KINDS:
                self._kinds.clear()
            kind = self._kinds[signature] = _Kind()
        now = self._clock()
        is_alone = kind.is_short is False and (not kind.alone_s or now < kind.rests_until)
        return kind, is_alone, now

    def end(self, kind: _Kind, is_alone: bool, began: float) -> None:
        """Record a run that succeeded."""
        now = self._clock()
        seconds = now - began
        if kind.is_short is None:  # the first run of its kind does work that later ones do not
            kind.is_short = seconds < LEAST_S
        elif is_alone:
            kind.alone_s = seconds
        elif kind.alone_s and seconds > kind.alone_s:
            kind.rests_until = now + kind.rest_s
            kind.rest_s = min(2 * kind.rest_s, MOST_REST_S)
        elif kind.alone_s:
            kind.rest_s = FIRST_REST_S
