"""What bounds the making of a session: a memory limit, a deadline, and the caller's wish to end it.

Reading a model, inferring its sizes, transforming, folding, partitioning and planning it go over
all of its nodes, many times, in loops far from each other. Each of these loops asks
:func:`poll_load`, which knows the session that is being made in this context; outside of one it
does nothing.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextvars import ContextVar
from typing import TypeVar

from ortpkg.errors import LimitExceededError
from ortpkg.quantities import amount_text, limit_text, time_limit_text

#: What a model's nodes, its constants and its declared values take here, measured and rounded up.
NODE_NBYTES, CONSTANT_NBYTES, DECLARED_NBYTES = 2500, 1000, 700
#: A graph without anything in it.
GRAPH_NBYTES = 4000
#: Likewise an input, an output or an attribute of a node that has more than usual; an entry of
#: metadata, a function, a dimension; a number or a text in a list.
PART_NBYTES, ENTRY_NBYTES, LISTED_NBYTES = 400, 250, 60
#: A session's own objects may take so much, whatever limit it has for values.
_FREE_NBYTES = 64 << 20
#: The limits are asked for once for so many parts of one thing: inputs of a node, fields of a file.
_PARTS = 1024
#: So many parts are counted with the thing.
_USUAL_PARTS = 8

PartT = TypeVar("PartT")


class LoadControl:
    """Limits of one session that is being made, and what it has taken of them.

    Args:
        memory_limit_nbytes, timeout_s: as of a run; None: no limit.
        check: raises where the caller does not want the session any more.
        what: that has the limits, in messages.

    Attributes:
        charged_nbytes: what the model's own objects take so far.
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
        """Until its deadline, a moment at least; None where it has none."""
        return None if self._deadline is None else max(self._deadline - time.monotonic(), 1e-3)

    def check(self) -> None:
        """LimitExceededError where the time is up, CancelledError where the caller ended it."""
        self._check()
        if self._deadline is not None and time.monotonic() > self._deadline:
            assert self._timeout_s is not None, "a deadline comes of it"
            limit = time_limit_text(self._timeout_s)
            raise LimitExceededError(f"{self._what} passed its time limit of {limit}", limit="time")

    def charge(self, nbytes: int) -> None:
        """Counts what the model's own objects take.

        LimitExceededError where that passes the memory limit.
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
        """LimitExceededError where a constant of that size passes the memory limit by itself."""
        if self.memory_limit_nbytes is not None and nbytes > self.memory_limit_nbytes:
            raise LimitExceededError(
                f"a constant of the model takes {amount_text(nbytes)}, which passes the memory"
                f" limit of {limit_text(self.memory_limit_nbytes)}",
                limit="memory",
            )


_current: ContextVar[LoadControl | None] = ContextVar("_current", default=None)


@contextlib.contextmanager
def load_limits(control: LoadControl) -> Iterator[None]:
    """While it lasts, sessions that are made in this context keep to the limits of ``control``."""
    token = _current.set(control)
    try:
        yield
    finally:
        _current.reset(token)


def load_control() -> LoadControl | None:
    """Of the session that is being made in this context.

    None where none is, or it has no limits.
    """
    return _current.get()


def poll_load(nbytes: int = 0) -> None:
    """Raises where the session that is being made has reached a limit.

    Args:
        nbytes: what was made since, to be counted.
    """
    control = _current.get()
    if control is not None:
        control.check()
        if nbytes:
            control.charge(nbytes)


def polled_parts(parts: Collection[PartT], nbytes: int = 0) -> Iterable[PartT]:
    """``parts`` of one thing, of which a model may have any number, as :func:`poll_load` allows.

    ``nbytes``: what is made of each, counted where they are more than usual.
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
    """What is made in here is gone afterwards, and counts no more."""
    control = _current.get()
    charged_nbytes = 0 if control is None else control.charged_nbytes
    try:
        yield
    finally:
        if control is not None:
            control.charged_nbytes = charged_nbytes
