"""Ends a computation inside a foreign library where the run that it belongs to is to end.

A library that computes a whole partition in one call cannot ask whether the run was cancelled or has passed its time;
one watching thread per process asks for all such calls, and tells the library to stop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from ortpkg.errors import OrtpkgError
from ortpkg.kernels.op_kernel import OpKernelContext

ResultT = TypeVar("ResultT")

#: How often a running call is looked at, in seconds.
_INTERVAL_S = 0.02


class _Call:
    """One call into a library that may have to be stopped."""

    def __init__(self, context: OpKernelContext, stop: Callable[[], object]) -> None:
        self._context = context
        self._stop = stop
        self.error: OrtpkgError | None = None

    def look(self) -> None:
        """Stops the call where its run is to end; at each look, since a library may drop a request that comes early."""
        if self.error is None:
            try:
                self._context.check_cancelled()
            except OrtpkgError as error:
                self.error = error
        if self.error is not None:
            self._stop()


class _Watch:
    """The thread that looks at running calls; it sleeps while there are none."""

    def __init__(self) -> None:
        self._calls: dict[_Call, None] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, call: _Call) -> None:
        with self._changed:
            self._calls[call] = None
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._look_on, name="ortpkg-run-watch", daemon=True)
                self._thread.start()
            self._changed.notify()

    def remove(self, call: _Call) -> None:
        with self._changed:
            self._calls.pop(call, None)

    def _look_on(self) -> None:
        while True:
            with self._changed:
                while not self._calls:
                    self._changed.wait()
                self._changed.wait(_INTERVAL_S)
                for call in tuple(self._calls):
                    call.look()


_WATCH = _Watch()


def run_watched(context: OpKernelContext, run: Callable[[], ResultT], stop: Callable[[], object]) -> ResultT:
    """Returns ``run()``; where the run of ``context`` is to end meanwhile, calls ``stop`` and raises why it ended.

    ``stop`` is called from another thread, perhaps more than once, and must not block.

    Raises CancelledError or LimitExceededError (time) where the run was ended, and what ``run`` raises otherwise.
    """
    call = _Call(context, stop)
    _WATCH.add(call)
    try:
        return run()
    except Exception as error:
        if call.error is not None:
            raise call.error from error
        raise
    finally:
        _WATCH.remove(call)
