"""Lets runs into a session while it is open and its mapped files are whole.

Closing waits for those that are in.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Sequence
from typing import Protocol

from ortpkg.errors import SessionError


class MappedSource(Protocol):
    """A file whose bytes weights lie in."""

    def verify_length(self) -> None:
        """Raises ModelFileError where the file has become shorter than what was mapped of it."""
        ...


class RunGate:
    """A context manager around each run; one per session, for any number of threads."""

    def __init__(self, sources: Sequence[MappedSource] = ()) -> None:
        """``sources``: checked before each run.

        Touching a mapped page behind a file's end kills the process.
        """
        self._sources = tuple(sources)
        self._is_closed = False
        self.forget()
        _GATES.add(self)

    def forget(self) -> None:
        """Starts anew in a fork, which lacks the threads whose runs were inside.

        A run of the thread that forked is not counted any more when it leaves.
        """
        # Taken by itself on the way in and out: a condition's own entry and exit are calls of
        # Python functions.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._running = 0

    def __enter__(self) -> None:
        with self._lock:
            if self._is_closed:
                raise SessionError("the session is closed")
            self._running += 1
        if not self._sources:
            return
        try:
            for source in self._sources:
                source.verify_length()
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_error: object) -> None:
        with self._lock:
            self._running = max(self._running - 1, 0)
            if self._is_closed and not self._running:  # nobody waits before that
                self._changed.notify_all()

    def close(self) -> None:
        """Lets nobody in any more, and returns when nobody is inside."""
        with self._changed:
            self._is_closed = True
            while self._running:
                self._changed.wait()


_GATES: weakref.WeakSet[RunGate] = weakref.WeakSet()


def _forget_runs() -> None:
    for gate in list(_GATES):
        gate.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_runs)
