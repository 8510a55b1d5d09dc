"""Lets Ctrl-C end a computation inside a library that does not hear it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from typing import Protocol, TypeVar

ResultT = TypeVar("ResultT")

#: How long a wait may last that an interrupt cannot end, as on Windows.
_WAIT_S = 0.2


class Stoppable(Protocol):
    """Options of a run that ends soon after ``terminate`` is set."""

    terminate: bool


def interruptible(run: Callable[[], ResultT], options: Stoppable) -> ResultT:
    """Returns ``run()`` from another thread: this one hears Ctrl-C while a library computes.

    Raises what ``run`` raises, and KeyboardInterrupt once the run has ended; a second interrupt
    does not wait for that.
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
