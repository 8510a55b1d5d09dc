"""Ends kernels in the middle: ours that compute in many steps, and Python code that never asks.

A kernel has a context to ask. What is called from many kernels (products of matrices, folds) asks
:func:`poll_run`, which knows the run that this thread is at. Code of other libraries is ended where
it stands, by :func:`run_interruptibly`.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

from ortpkg.isolation.run_watch import WatchedRun, run_watched

ResultT = TypeVar("ResultT")


class _Run(threading.local):
    """What raises where the run that this thread is at is to end."""

    check: Callable[[], None] | None = None


_run = _Run()


@contextlib.contextmanager
def polled(check: Callable[[], None]) -> Iterator[None]:
    """Meanwhile :func:`poll_run` calls ``check`` in this thread."""
    before, _run.check = _run.check, check
    try:
        yield
    finally:
        _run.check = before


def poll_run() -> None:
    """Raises where the run of this thread is to end. Between steps that take milliseconds."""
    if _run.check is not None:
        _run.check()


class _InterruptedHere(BaseException):
    """Raised in the thread that computes, wherever it is; no library catches it."""


class _EndedError(Exception):
    """The same, outside of the computation."""


class _PythonCall:
    """One computation of this thread that another thread may end."""

    def __init__(self) -> None:
        self._thread_id = threading.get_ident()
        self._lock = threading.Lock()
        self._is_running = False
        self._is_told = False

    def run(self, compute: Callable[[], ResultT]) -> ResultT:
        try:
            self._is_running = True
            try:
                return compute()
            finally:
                self._end()
        except _InterruptedHere:
            raise _EndedError("the run is to end") from None

    def stop(self) -> None:
        """Raises in the computing thread, once, at its next Python instruction."""
        with self._lock:
            if self._is_running and not self._is_told:
                self._is_told = True
                _raise_in(self._thread_id, _InterruptedHere)

    def _end(self) -> None:
        with self._lock:
            self._is_running = False
        if self._is_told:
            # What was sent arrives at the next jump at the latest, and must arrive nowhere else. It
            # is not taken back: CPython 3.11 and 3.12 would count it as on its way for ever, look
            # for it at each call, and a traced call would not return (ceval.c, async_exc).
            for _ in range(2):
                pass


def _raise_in(thread_id: int, exception: type[BaseException]) -> None:
    """Raises in another thread."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread_id), ctypes.py_object(exception)
    )


def run_interruptibly(context: WatchedRun, compute: Callable[[], ResultT]) -> ResultT:
    """Returns ``compute()``; where the run of ``context`` is to end meanwhile, raises why.

    It ends at the next instruction of Python code; a single call into numpy is not interrupted.
    What the process takes meanwhile counts as the run's. For code that changes nothing but values
    of its own.
    """
    if not context.is_watched:
        return compute()
    call = _PythonCall()
    return run_watched(context, lambda: call.run(compute), call.stop)
