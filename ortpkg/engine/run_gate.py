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
    """Counts the runs that are inside of a session; one per session, for any number of threads.

    A run is inside while it holds its lock, so that no interrupt can leave it there
    (:mod:`ortpkg.host.turns`)::

        ticket = gate.ticket()
        with ticket:
            gate.enter()
            ...
        gate.leave(ticket)
    """

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
        self._threads: dict[threading.Lock, int] = {}

    def ticket(self) -> threading.Lock:
        """Return a new lock, which a run holds while it is inside, until :meth:`leave`."""
        ticket = threading.Lock()
        self._threads[ticket] = threading.get_ident()
        return ticket

    def enter(self) -> None:
        """Check that the run that holds its ticket may go on.

        Raises SessionError where the session is closed, ModelFileError where a source is shorter.
        """
        if self._is_closed:
            raise SessionError("the session is closed")
        for source in self._sources:
            source.verify_length()

    def leave(self, ticket: threading.Lock) -> None:
        """Forget a ticket that is no longer held."""
        self._threads.pop(ticket, None)

    def is_inside(self) -> bool:
        """Return True if a run of the calling thread is inside: a signal's handler asks then."""
        me = threading.get_ident()
        return any(
            thread == me and ticket.locked() for ticket, thread in self._threads.copy().items()
        )

    def close(self) -> None:
        """Let nobody in any more, and return when nobody is inside.

        Not for a thread that is inside itself.
        """
        self._is_closed = True
        for ticket in self._threads.copy():
            with ticket:  # a run that gets it later finds the gate closed
                pass
            self.leave(ticket)


_GATES: weakref.WeakSet[RunGate] = weakref.WeakSet()


def _forget_runs() -> None:
    for gate in list(_GATES):
        gate.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_runs)
