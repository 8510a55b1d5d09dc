"""Interruption of kernels: ours that compute in many steps, and Python code that never checks.

A kernel checks its context. Code that many kernels call (products of matrices, folds) calls
:func:`poll_run`, which knows the run of this thread. Code of other libraries is interrupted at its
current instruction by :func:`run_interruptibly`.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from ortpkg.foundations.isolation.run_watch import WatchedRun, run_watched

ResultT = TypeVar("ResultT")

#: Seconds after which a computation that goes on is interrupted again.
_TELL_AGAIN_AFTER_S = 0.1


class _Runs(threading.local):
    """Checks of the runs of this thread, the innermost last; a check raises to end its run.

    A run is over once its lock is free, however it ended (:mod:`ortpkg.foundations.host.turns`).
    """

    def __init__(self) -> None:
        self.checks: list[tuple[threading.Lock, Callable[[], None]]] = []


_runs = _Runs()


def polled(check: Callable[[], None]) -> threading.Lock:
    """Return a lock; while it is held, :func:`poll_run` calls ``check`` in this thread."""
    checks, lock = _runs.checks, threading.Lock()
    while checks and not checks[-1][0].locked():
        checks.pop()
    checks.append((lock, check))
    return lock


def poll_run() -> None:
    """Raise if the run of this thread is to end. Call it between steps of milliseconds."""
    checks = _runs.checks
    while checks:
        lock, check = checks[-1]
        if lock.locked():
            check()
            return
        checks.pop()


class _InterruptedHere(BaseException):
    """Raised in the thread that computes, wherever it is; no library catches it."""


class _EndedError(Exception):
    """Raised behind the computation that :class:`_InterruptedHere` ended, for its caller."""


class _Unraised:
    """Hook for exceptions that the interpreter prints since it cannot raise them.

    It does not print the interruptions of computations.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_computations = 0
        self._before = self._installed = sys.unraisablehook

    @contextlib.contextmanager
    def without_ends(self) -> Iterator[None]:
        """Keep :class:`_InterruptedHere` from ``sys.unraisablehook`` meanwhile."""
        with self._lock:
            self._n_computations += 1
            if self._n_computations == 1:
                self._install()
        try:
            yield
        finally:
            with self._lock:
                self._n_computations -= 1
                # A hook that replaced ours meanwhile may call ours, so it stays.
                if self._n_computations == 0 and sys.unraisablehook is self._installed:
                    sys.unraisablehook = self._before

    def _install(self) -> None:
        before = sys.unraisablehook

        def tell(unraised: sys.UnraisableHookArgs) -> None:
            if unraised.exc_type is not _InterruptedHere:
                before(unraised)

        self._before, self._installed = before, tell
        sys.unraisablehook = tell


_unraised = _Unraised()


class _PythonCall:
    """One computation of this thread that another thread may interrupt."""

    def __init__(self) -> None:
        self._thread_id = threading.get_ident()
        self._lock = threading.Lock()
        self._is_running = False
        self._sent_at_s: float | None = None

    def run(self, compute: Callable[[], ResultT]) -> ResultT:
        try:
            self._is_running = True
            try:
                return compute()
            finally:
                self._end()
        except _InterruptedHere:
            self._end()  # Again: a second one may have interrupted the first.
            raise _EndedError("the run is to end") from None

    def stop(self) -> None:
        """Raise in the computing thread at its next Python instruction.

        Repeat after a while: if that instruction is in a finalizer or a callback of the garbage
        collector, the interpreter goes on (and prints the exception, but for :class:`_Unraised`).
        """
        with self._lock:
            now_s = time.monotonic()
            is_due = self._sent_at_s is None or now_s - self._sent_at_s > _TELL_AGAIN_AFTER_S
            if self._is_running and is_due:
                self._sent_at_s = now_s
                _raise_in(self._thread_id, _InterruptedHere)

    def _end(self) -> None:
        with self._lock:
            self._is_running = False
        if self._sent_at_s is not None:
            # An exception that was sent arrives at the next jump at the latest, and must arrive
            # nowhere else. It is not taken back: CPython 3.11 and 3.12 would count it as pending
            # for ever, check for it at each call, and a traced call would not return (ceval.c,
            # async_exc).
            for _ in range(2):
                pass


def _raise_in(thread_id: int, exception: type[BaseException]) -> None:
    """Raise an exception in another thread."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread_id), ctypes.py_object(exception)
    )


def run_interruptibly(context: WatchedRun, compute: Callable[[], ResultT]) -> ResultT:
    """Return ``compute()``; if the run of ``context`` is to end meanwhile, raise the reason.

    It ends at the next instruction of Python code; a single call into numpy is not interrupted.
    Memory that the process allocates meanwhile counts as the run's. Use it for code that only
    changes values of its own.
    """
    if not context.is_watched:
        return compute()
    call = _PythonCall()
    with _unraised.without_ends():
        return run_watched(context, lambda: call.run(compute), call.stop)
