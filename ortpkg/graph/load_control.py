"""Limits on the creation of a session: memory, a deadline, and cancellation by the caller.

Reading a model, inferring its sizes, transforming, folding, partitioning and planning it go over
all of its nodes many times, in loops far from each other. Each of these loops calls
:func:`poll_load`, which knows the session that is created in this context; without one it does
nothing.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextvars import ContextVar
from typing import TypeVar

from ortpkg.foundations.errors import LimitExceededError
from ortpkg.foundations.quantities import amount_text, limit_text, time_limit_text

#: Memory of a node, a constant and a declared value, measured and rounded up.
NODE_NBYTES, CONSTANT_NBYTES, DECLARED_NBYTES = 2500, 1000, 700
#: Memory of an empty graph.
GRAPH_NBYTES = 4000
#: Memory of an input, an output or an attribute of a node with more than usual; of an entry of
#: metadata, a function or a dimension; of a number or a text in a list.
PART_NBYTES, ENTRY_NBYTES, LISTED_NBYTES = 400, 250, 60
#: Memory for a session's own objects that is allowed in addition to any limit.
_FREE_NBYTES = 64 << 20
#: Parts of one object between two checks of the limits: inputs of a node, fields of a file.
_PARTS = 1024
#: Number of parts whose memory is counted with their object.
_USUAL_PARTS = 8

PartT = TypeVar("PartT")


class LoadControl:
    """Limits of a session that is being created, and its consumption so far.

    Args:
        memory_limit_nbytes, timeout_s: as for a run; None: no limit.
        check: raises if the caller has cancelled the session.
        what: the name of the limited work in messages.

    Attributes:
        charged_nbytes: the memory of the model's own objects so far.
    """

    def __init__(
        self,
        *,
        memory_limit_nbytes: int | None,
        timeout_s: float | None,
        check: Callable[[], None] = lambda: None,
        what: str = "making the session",
    ) -> None:
        self.memory_limit_nbytes = memory_limit_nbytes
        self._timeout_s = timeout_s
        self._deadline = None if timeout_s is None else time.monotonic() + timeout_s
        self._check = check
        self._what = what
        self.charged_nbytes = 0

    @property
    def time_left_s(self) -> float | None:
        """Time until the deadline, at least a millisecond; None without a deadline."""
        return None if self._deadline is None else max(self._deadline - time.monotonic(), 1e-3)

    def check(self) -> None:
        """Check the limits.

        Raises:
            LimitExceededError: if the time is up.
            CancelledError: if the caller has cancelled.
        """
        self._check()
        if self._deadline is not None and time.monotonic() > self._deadline:
            assert self._timeout_s is not None, "a deadline comes of it"
            limit = time_limit_text(self._timeout_s)
            raise LimitExceededError(f"{self._what} passed its time limit of {limit}", limit="time")

    def charge(self, nbytes: int) -> None:
        """Add the memory of the model's own objects.

        Raises:
            LimitExceededError: if the total exceeds the memory limit.
        """
        self.charged_nbytes += nbytes
        if (
            self.memory_limit_nbytes is not None
            and self.charged_nbytes > self.memory_limit_nbytes + _FREE_NBYTES
        ):
            raise LimitExceededError(
                "the nodes and constants of the model take"
                f" {amount_text(self.charged_nbytes)} and more, which passes the memory limit of"
                f" {limit_text(self.memory_limit_nbytes)}",
                limit="memory",
            )

    def check_constant(self, nbytes: int) -> None:
        """Raise LimitExceededError if a constant of that size alone exceeds the memory limit."""
        if self.memory_limit_nbytes is not None and nbytes > self.memory_limit_nbytes:
            raise LimitExceededError(
                f"a constant of the model takes {amount_text(nbytes)}, which passes the memory"
                f" limit of {limit_text(self.memory_limit_nbytes)}",
                limit="memory",
            )


_current: ContextVar[LoadControl | None] = ContextVar("_current", default=None)


@contextlib.contextmanager
def load_limits(control: LoadControl) -> Iterator[None]:
    """Limit sessions that are created in this context by ``control``, while it lasts."""
    token = _current.set(control)
    try:
        yield
    finally:
        _current.reset(token)


def load_control() -> LoadControl | None:
    """Return the limits of the session that is being created in this context.

    None if there is no session, or it has no limits.
    """
    return _current.get()


def poll_load(nbytes: int = 0) -> None:
    """Raise if the session that is being created has reached a limit.

    Args:
        nbytes: memory of objects made since, to be added.
    """
    control = _current.get()
    if control is not None:
        control.check()
        if nbytes:
            control.charge(nbytes)


def polled_parts(parts: Collection[PartT], nbytes: int = 0) -> Iterable[PartT]:
    """Return ``parts`` of one object, with calls of :func:`poll_load` in between if there are many.

    Args:
        parts: any number of parts.
        nbytes: memory per part, added if there are more parts than usual.
    """
    if len(parts) <= _USUAL_PARTS or _current.get() is None:
        return parts
    if len(parts) < _PARTS:
        poll_load(nbytes * len(parts))
        return parts
    return _polled(parts, nbytes)


def _polled(parts: Iterable[PartT], nbytes: int) -> Iterator[PartT]:
    number = 0
    for number, part in enumerate(parts, 1):
        if number % _PARTS == 0:
            poll_load(_PARTS * nbytes)
        yield part
    poll_load(number % _PARTS * nbytes)


@contextlib.contextmanager
def passing_charges() -> Iterator[None]:
    """Drop, at the end, the charges for all objects made inside, which do not outlive it."""
    control = _current.get()
    charged_nbytes = 0 if control is None else control.charged_nbytes
    try:
        yield
    finally:
        if control is not None:
            control.charged_nbytes = charged_nbytes
