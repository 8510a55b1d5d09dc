"""Lets Ctrl-C end a computation inside a library that does not react to it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from typing import Protocol, TypeVar

ResultT = TypeVar("ResultT")

#: Longest wait that an interrupt cannot end, as on Windows, in seconds.
_WAIT_S = 0.2


class Stoppable(Protocol):
    """Options of a run, which ends soon after ``terminate`` is set."""

    terminate: bool


def interruptible(run: Callable[[], ResultT], options: Stoppable) -> ResultT:
    """Return ``run()`` from another thread.

    So this thread receives Ctrl-C while a library computes.

    Raises:
        KeyboardInterrupt: The user interrupted; raised when the run has ended, after a second
            interrupt at once.
        Exception: Any error of ``run``.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="ortpkg-run") as thread:
        future = thread.submit(run)
        try:
            return _result(future)
        except KeyboardInterrupt:
            options.terminate = True
            raise


def _result(future: Future[ResultT]) -> ResultT:
    while not future.done():
        wait_for([future], timeout=_WAIT_S)
    return future.result()
