"""Stop a computation inside a foreign library when its run must end.

A library that computes a whole partition in one call cannot check whether the run was cancelled or
has exceeded its time, nor report its memory. One watchdog thread per process checks all such calls,
and tells the library to stop.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from ortpkg.foundations.errors import OrtpkgError
from ortpkg.foundations.host.memory import resident_nbytes as process_nbytes

ResultT = TypeVar("ResultT")

#: Interval in which a running call is checked, in seconds.
_INTERVAL_S = 0.02
#: Checks without a call before the watchdog sleeps; waking it costs a small model more than its
#: run.
_MOST_IDLE_LOOKS = 50
#: Time that a call may continue after it was told to stop, before the last resort, in seconds.
_GRACE_S = 2.0
_LAST_RESORT: list[Callable[[OrtpkgError], None]] = []


class Watched(Protocol):
    """Checks of an OpKernelContext that long loops call; they raise if the run must end."""

    @property
    def is_memory_limited(self) -> bool:
        """True if the caller has limited the memory.

        Otherwise :meth:`check_allocation` is not needed.
        """
        ...

    def check_cancelled(self) -> None:
        """Raise CancelledError if the run is to end, or LimitExceededError if time is up."""
        ...

    def check_allocation(self, nbytes: int) -> None:
        """Raise LimitExceededError if so many more bytes would exceed the run's limit."""
        ...


class WatchedRun(Watched, Protocol):
    """Part of OpKernelContext that a computation in a foreign library needs."""

    @property
    def is_watched(self) -> bool:
        """True if the run has any limit or can be cancelled; otherwise it need not be watched."""
        ...


class _Call:
    """Call into a library that may have to be stopped.

    Attributes:
        is_in_process: True if the library computes in this process, whose memory grows by all such
            calls together.
    """

    def __init__(
        self,
        context: Watched,
        stop: Callable[[], object],
        resident_nbytes: Callable[[], int] | None,
    ) -> None:
        self._context = context
        self._stop = stop
        self.is_in_process = resident_nbytes is None
        self._resident_nbytes = process_nbytes if resident_nbytes is None else resident_nbytes
        # Reading it takes as long as a small model, so it is read only with a limit.
        self._held_nbytes = self._resident_nbytes() if context.is_memory_limited else None
        self.error: OrtpkgError | None = None
        self._stopped_at = 0.0

    def look(self, sharers: int) -> None:
        """Stop the call if its run must end, at each check, because libraries drop early requests.

        ``sharers`` is the number of calls among which the growth of memory is divided, since
        nothing tells whose it is.
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
        """Return True if it continues in this process ``grace_s`` after it was told to stop."""
        return (
            self.is_in_process
            and self.error is not None
            and time.monotonic() - self._stopped_at > grace_s
        )


class _Watch:
    """Watchdog thread that checks running calls, and sleeps if there were none for a while."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start again in a fork, which lacks our threads and may have locks that they held."""
        self._calls: dict[_Call, None] = {}
        # Used alone if nothing waits: a condition's own entry and exit are calls of Python
        # functions.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._is_asleep = False
        self._thread: threading.Thread | None = None

    def add(self, call: _Call) -> None:
        """Register a call with the watchdog thread, starting or waking it if needed."""
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
        """Unregister a call that has ended."""
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
                    idle_looks = 0  # also if the call that woke it has ended: more may follow
                self._changed.wait(_INTERVAL_S)
                self._look_once()

    def _look_once(self) -> None:
        own_calls = sum(call.is_in_process for call in self._calls)
        for call in self._calls:
            call.look(own_calls if call.is_in_process else 1)
            if _LAST_RESORT and call.error is not None and call.is_stuck(_GRACE_S):
                _LAST_RESORT[-1](call.error)


_WATCH = _Watch()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_WATCH.forget)


@contextmanager
def last_resort(act: Callable[[OrtpkgError], None]) -> Iterator[None]:
    """Register ``act`` for this context; the watchdog calls it if a library does not stop in time.

    It is for programs that may end themselves, such as a command line; a library must not end its
    host.
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
    """Return ``run()``; if the run of ``context`` must end, call ``stop`` and raise the reason.

    Args:
        context: Context of the run; its memory limit, if any, is compared with the growth since
            this call began.
        run: The call into the library.
        stop: Stops the library. Called from another thread, perhaps repeatedly; must not block.
        resident_nbytes: Returns the memory of the process in which the library computes; None for
            this process, whose growth is divided among the watched calls in it.

    Raises:
        CancelledError, LimitExceededError: The run was ended.
        Exception: Any error of ``run``.
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
        except BaseException:  # after an interrupt, too, a call that has ended must not be stopped
            _WATCH.remove(call)
            raise
    if call.error is not None:  # it could not be stopped, or not in time
        raise call.error
    return result
