"""Helper threads of runs that stay usable if the caller is interrupted while it submits work.

An executor of the standard library takes locks in Python code: a signal handler that raises in the
middle of ``submit`` leaves them locked, and the next call waits forever. Here the caller queues
calls and starts threads by single C functions.
"""

from __future__ import annotations

import _thread
import os
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue

Calls = SimpleQueue[Callable[[], object] | None]


class HelperThreads:
    """Pool of up to ``count`` threads; each submitted call starts one more until all run."""

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._name = name
        self._made_in = os.getpid()
        self._calls: Calls = SimpleQueue()
        self._started = 0
        self.shut_down = weakref.finalize(self, _dismiss, self._calls, count)

    def submit(self, call: Callable[[], object]) -> None:
        """Queue a call for some thread; in a forked process or after the end it is dropped."""
        if not self.shut_down.alive or self._made_in != os.getpid():
            return
        self._calls.put(call)
        if self._started < self._count:
            with suppress(
                RuntimeError
            ):  # the system allows no more threads: the caller works alone
                _thread.start_new_thread(_start, (self._calls, f"{self._name}_{self._started}"))
            self._started += 1


def _start(calls: Calls, name: str) -> None:
    """Start the worker from a thread without signals, since ``Thread.start`` takes locks, too."""
    with suppress(RuntimeError):
        threading.Thread(target=_serve, args=(calls,), name=name, daemon=True).start()


def _serve(calls: Calls) -> None:
    while (call := calls.get()) is not None:
        call()
        del call  # frees what it holds while this thread waits


def _dismiss(calls: Calls, count: int) -> None:
    for _ in range(count):
        calls.put(None)
