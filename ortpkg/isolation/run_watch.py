"""Ends a computation inside a foreign library where the run that it belongs to is to end.

A library that computes a whole partition in one call cannot ask whether the run was cancelled or
has passed its time, nor say what memory it takes; one watching thread per process looks at all such
calls, and tells the library to stop.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from ortpkg.errors import OrtpkgError
from ortpkg.host.memory import resident_nbytes as process_nbytes

ResultT = TypeVar("ResultT")

#: How often a running call is looked at, in seconds.
_INTERVAL_S = 0.02
#: How many looks at nothing the watching thread waits for the next call; then it sleeps, and waking
#: it costs a small model more than it takes itself.
_MOST_IDLE_LOOKS = 50
#: How long a call that was told to stop may go on before the last resort, in seconds.
_GRACE_S = 2.0
_LAST_RESORT: list[Callable[[OrtpkgError], None]] = []


class Watched(Protocol):
    """What long loops ask of an OpKernelContext: its checks raise where the run is to end."""

    @property
    def is_memory_limited(self) -> bool:
        """Whether its caller has limited its memory; else :meth:`check_allocation` is not asked."""
        ...

    def check_cancelled(self) -> None:
        """Raises CancelledError if the caller wants an end, LimitExceededError if time is over."""
        ...

    def check_allocation(self, nbytes: int) -> None:
        """Raises LimitExceededError where so many bytes more would pass the run's limit."""
        ...


class WatchedRun(Watched, Protocol):
    """The part of OpKernelContext that a computation in a foreign library asks."""

    @property
    def is_watched(self) -> bool:
        """Whether the run has any limit, or can be cancelled; else nobody has to look at it."""
        ...


class _Call:
    """One call into a library that may have to be stopped.

    Attributes:
        is_own: whether the library computes in this process, whose memory grows by all such calls
            together.
    """

    def __init__(
        self,
        context: Watched,
        stop: Callable[[], object],
        resident_nbytes: Callable[[], int] | None,
    ) -> None:
        self._context = context
        self._stop = stop
        self.is_own = resident_nbytes is None
        self._resident_nbytes = process_nbytes if resident_nbytes is None else resident_nbytes
        # To read it takes as long as a small model: where there is no limit, nobody does.
        self._held_nbytes = self._resident_nbytes() if context.is_memory_limited else None
        self.error: OrtpkgError | None = None
        self._stopped_at = 0.0

    def look(self, sharers: int) -> None:
        """Stops the call if its run is to end: at each look, as libraries drop early requests.

        ``sharers``: calls among which the growth of memory is divided, as nobody tells whose it is.
        """
        if self.error is None:
            try:
                self._context.check_cancelled()
                if self._held_nbytes is not None:
                    self._check_memory(self._held_nbytes, sharers)
            except OrtpkgError as error:
                self.error = error
                self._stopped_at = time.monotonic()
        if self.error is not None:
            self._stop()

    def _check_memory(self, held_nbytes: int, sharers: int) -> None:
        grown_nbytes = self._resident_nbytes() - held_nbytes
        if grown_nbytes > 0:
            self._context.check_allocation(grown_nbytes // sharers)

    def is_stuck(self, grace_s: float) -> bool:
        """Whether it goes on in this process although it was told to stop ``grace_s`` ago."""
        return (
            self.is_own and self.error is not None and time.monotonic() - self._stopped_at > grace_s
        )


class _Watch:
    """The thread that looks at running calls; it sleeps where there were none for a while."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Starts anew in a fork, which lacks our threads and may have locks they held."""
        self._calls: dict[_Call, None] = {}
        # Taken by itself where nobody waits: a condition's own entry and exit are calls of Python
        # functions.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._is_asleep = False
        self._thread: threading.Thread | None = None

    def add(self, call: _Call) -> None:
        """Has the watching thread look at ``call``; starts or wakes it."""
        with self._lock:
            self._calls[call] = None
            if self._thread is None or not self._thread.is_alive():
                self._is_asleep = False
                self._thread = threading.Thread(
                    target=self._look_on, name="ortpkg-run-watch", daemon=True
                )
                self._thread.start()
            elif self._is_asleep:
                self._changed.notify()

    def remove(self, call: _Call) -> None:
        """No longer looks at ``call``, which has ended."""
        with self._lock:
            self._calls.pop(call, None)

    def _look_on(self) -> None:
        idle_looks = 0
        while True:
            with self._changed:
                idle_looks = 0 if self._calls else idle_looks + 1
                if idle_looks > _MOST_IDLE_LOOKS:
                    self._is_asleep = True
                    self._changed.wait()
                    self._is_asleep = False
                    idle_looks = (
                        0  # also where the call that woke it has ended by now: more may follow
                    )
                self._changed.wait(_INTERVAL_S)
                self._look_once()

    def _look_once(self) -> None:
        own = sum(call.is_own for call in self._calls)
        for call in self._calls:
            call.look(own if call.is_own else 1)
            if _LAST_RESORT and call.error is not None and call.is_stuck(_GRACE_S):
                _LAST_RESORT[-1](call.error)


_WATCH = _Watch()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_WATCH.forget)


@contextmanager
def last_resort(act: Callable[[OrtpkgError], None]) -> Iterator[None]:
    """Has ``act`` called, by the watching thread, if a library does not stop within its grace.

    For programs that may end themselves, such as a command line; a library must not end its host.
    """
    _LAST_RESORT.append(act)
    try:
        yield
    finally:
        _LAST_RESORT.remove(act)


def run_watched(
    context: Watched,
    run: Callable[[], ResultT],
    stop: Callable[[], object],
    *,
    resident_nbytes: Callable[[], int] | None = None,
) -> ResultT:
    """Returns ``run()``; if the run of ``context`` is to end, calls ``stop`` and raises why it did.

    Args:
        context: of the run; its memory limit, where its caller set one, is compared with what was
            taken since this call began.
        run: the call into the library.
        stop: is called from another thread, perhaps more than once, and must not block.
        resident_nbytes: memory of the process in which the library computes; None: this one. That
            is the growth of the whole process, whoever caused it, divided among the watched calls
            in it.

    Raises CancelledError or LimitExceededError where the run was ended, and what ``run`` raises
    otherwise.
    """
    call = _Call(context, stop, resident_nbytes)
    try:
        _WATCH.add(call)
        result = run()
    except Exception as error:
        if call.error is not None:
            raise call.error from error
        raise
    finally:
        try:
            _WATCH.remove(call)
        except BaseException:  # an interrupt: a call that has ended must not be stopped
            _WATCH.remove(call)
            raise
    if call.error is not None:  # it could not be stopped, or not in time
        raise call.error
    return result
