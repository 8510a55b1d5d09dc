"""Threads that help runs, and that an interrupt of whoever asks for them leaves whole.

An executor of the standard library guards itself with locks in Python code: a signal handler that
raises in the middle of its ``submit`` leaves them taken, and the next one waits for ever. Here the
caller puts calls into a queue, and starts threads, by single C functions.
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
    """Up to ``count`` threads, each made when it may have something to do."""

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._name = name
        self._made_in = os.getpid()
        self._calls: Calls = SimpleQueue()
        self._started = 0
        self.shut_down = weakref.finalize(self, _dismiss, self._calls, count)

    def submit(self, call: Callable[[], object]) -> None:
        """Have a thread call it, some time or, in a fork or after the end, never."""
        if not self.shut_down.alive or self._made_in != os.getpid():
            return
        self._calls.put(call)
        if self._started < self._count:
            with suppress(RuntimeError):  # the system has no more threads: the caller works alone
                _thread.start_new_thread(_start, (self._calls, f"{self._name}_{self._started}"))
            self._started += 1


def _start(calls: Calls, name: str) -> None:
    """Start a thread in a thread that gets no signals: ``Thread.start`` has such locks, too."""
    with suppress(RuntimeError):
        threading.Thread(target=_serve, args=(calls,), name=name, daemon=True).start()


def _serve(calls: Calls) -> None:
    while (call := calls.get()) is not None:
        call()
        del call  # and what it holds, while there is no other


def _dismiss(calls: Calls, count: int) -> None:
    for _ in range(count):
        calls.put(None)
