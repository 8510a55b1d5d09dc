"""How many threads numpy's linear-algebra library has (``intra_op_num_threads``).

The library has one thread count per process. A session that sets a count has it only while one of
its runs is under way: the first such run remembers what the process had, the last gives it back.
Where sessions with different counts run at the same time, the count set last holds for all of them.
A session with count 0 leaves the library as it is.

A run is over once its lock is free (:mod:`ortpkg.host.turns`): an interrupt that keeps one from
giving the count back leaves that to the next run.

Kernels have no threads of their own. Measured on two cores: threads that share a kernel's numpy
calls wait for the interpreter's lock and for being woken, and have to make the library idle
meanwhile; all of it cost more than it gave but for a few very large images.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import cache
from typing import TypeVar

from threadpoolctl import ThreadpoolController

ResultT = TypeVar("ResultT")

_HELD = 1


class _Counts:
    """The counts that runs want now, and what the library had before the first of them."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # a signal handler that comes in between may run a session
        self.wanted: dict[threading.Lock, tuple[int, bool]] = {}
        self.original: list[tuple[object, int]] = []
        self.is_changed = False

    def settle(self) -> None:
        """Give the library what the runs under way want; after the last, what it had."""
        with self.lock:
            for run in list(self.wanted):
                if not run.locked():
                    self.wanted.pop(run, None)
            wanted = list(self.wanted.values())
            if wanted and not self.is_changed:
                libraries = _controller().lib_controllers
                self.original = [(library, library.get_num_threads()) for library in libraries]
                self.is_changed = True
            if self.is_changed:
                is_held = any(holds for _, holds in wanted)
                stated = [count for count, holds in wanted if not holds]
                for library, original in self.original:
                    count = _HELD if is_held else stated[-1] if stated else original
                    library.set_num_threads(count)  # type: ignore[attr-defined]
                self.is_changed = bool(wanted)


_counts = _Counts()


@cache
def _controller() -> ThreadpoolController:
    """The BLAS libraries of this process; looked for once, when a count is first needed."""
    return ThreadpoolController().select(user_api="blas")


def call_with_blas_threads(count: int, call: Callable[[], ResultT]) -> ResultT:
    """Return ``call()``; meanwhile the linear-algebra library has ``count`` threads.

    0 leaves it as it is.
    """
    if count:
        return _called(count, call, is_held=False)
    if _counts.is_changed:  # perhaps since a run was interrupted where it gave the count back
        _counts.settle()
    return call()


def call_held_to_one_thread(call: Callable[[], ResultT]) -> ResultT:
    """Return ``call()`` with one thread: for many products, each too small for a second one."""
    return _called(_HELD, call, is_held=True)


def _called(count: int, call: Callable[[], ResultT], *, is_held: bool) -> ResultT:
    run = threading.Lock()
    try:
        with run:
            with _counts.lock:
                _counts.wanted[run] = count, is_held
                _counts.settle()
            return call()
    finally:
        try:
            _counts.settle()
        except BaseException:  # an interrupt: again, for there may be no other run
            _counts.settle()
            raise


def _forget_runs() -> None:
    """Forgets the runs and locks of a forked child's parent, for which nobody would let go."""
    _counts.lock = threading.RLock()
    _counts.wanted = {}
    _counts.settle()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_runs)
