"""Gate that admits runs to a session while it is open and its mapped files are complete.

Closing waits for the runs that are inside.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Sequence
from typing import Protocol

from ortpkg.foundations.errors import SessionError


class MappedSource(Protocol):
    """A file that holds weights."""

    def verify_length(self) -> None:
        """Raise ModelFileError if the file has become shorter than its mapped part."""
        ...


class RunGate:
    """Keeps track of the runs of a session, from any number of threads; each session has one.

    A run is inside while its ticket, a lock, is held, so that an interrupt cannot leave it inside
    forever (:mod:`ortpkg.foundations.host.turns`)::

        ticket = gate.ticket()
        with ticket:
            gate.enter()
            ...
        gate.leave(ticket)
    """

    def __init__(self, sources: Sequence[MappedSource] = ()) -> None:
        """Create an open gate.

        ``sources``: files to check before each run: touching a mapped page behind a file's end
        kills the process.
        """
        self._sources = tuple(sources)
        self._is_closed = False
        self.forget()
        _GATES.add(self)

    def forget(self) -> None:
        """Start anew in a forked process, which lacks the threads whose runs were inside.

        A run of the thread that forked is no longer counted when it leaves.
        """
        self._threads: dict[threading.Lock, int] = {}

    def ticket(self) -> threading.Lock:
        """Return a new lock that a run holds while it is inside; :meth:`leave` forgets it."""
        ticket = threading.Lock()
        self._threads[ticket] = threading.get_ident()
        return ticket

    def enter(self) -> None:
        """Check that the run that holds its ticket may go on.

        Raises SessionError if the session is closed, ModelFileError if a mapped file got shorter.
        """
        if self._is_closed:
            raise SessionError("the session is closed")
        for source in self._sources:
            source.verify_length()

    def leave(self, ticket: threading.Lock) -> None:
        """Forget a ticket that is no longer held."""
        self._threads.pop(ticket, None)

    def is_inside(self) -> bool:
        """Return True if the calling thread has a run inside, as in a signal handler during one."""
        me = threading.get_ident()
        return any(
            thread == me and ticket.locked() for ticket, thread in self._threads.copy().items()
        )

    def close(self) -> None:
        """Refuse further runs, and return when those inside have ended.

        A thread that is inside itself must not call this.
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
