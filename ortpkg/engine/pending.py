"""Values that an asynchronous kernel is still computing.

An asynchronous compute function returns a ``concurrent.futures.Future`` of what a synchronous one
returns. Whoever starts it gets a :class:`Pending`; a non-strict node that takes an output of it
gets a :class:`PendingValue`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from typing import Any

from ortpkg.host.turns import uninterrupted
from ortpkg.kernels.op_kernel import Compute, OpKernelContext, Value

#: How often a run that has limits, or can be ended, looks whether it should go on waiting.
_LOOK_S = 0.02


class Pending:
    """What an asynchronous kernel will return, and what to do with it before anybody sees it."""

    def __init__(self, future: Future[Any], finish: Callable[[Any], Value] | None = None) -> None:
        self.future = future
        self._finish: list[Callable[[Any], Value]] = [] if finish is None else [finish]
        self._lock = threading.Lock()
        self._results: list[Value] = []

    def then(self, finish: Callable[[Any], Value]) -> Pending:
        """This object, which applies ``finish`` to the result at last.

        Called before the result is asked for.
        """
        self._finish.append(finish)
        return self

    def result(self, timeout_s: float | None = None) -> Value:
        """Waits.

        TimeoutError where it takes longer than ``timeout_s``; what the kernel raised is raised.
        """
        found = self.future.result(timeout_s)
        with self._lock:
            if not self._results:
                for finish in self._finish:
                    found = finish(found)
                self._results.append(found)
            return self._results[0]


class PendingValue:
    """One output of a node under way, as a non-strict node takes it: ``result()`` waits for it."""

    def __init__(self, pending: Pending, position: int) -> None:
        self._pending = pending
        self._position = position

    def done(self) -> bool:
        """Whether :meth:`result` would not wait."""
        return self._pending.future.done()

    def result(self, timeout_s: float | None = None) -> Value:
        """The value.

        TimeoutError where it takes longer than ``timeout_s``; what its node raised is raised.
        """
        found = self._pending.result(timeout_s)
        return found[self._position] if isinstance(found, tuple) else found


def begun(result: Any) -> Value | Pending:
    """What a compute function returned, a Future as a :class:`Pending`."""
    return Pending(result) if isinstance(result, Future) else result


def finished(pending: Pending, context: OpKernelContext) -> Value:
    """Wait for ``pending``.

    A run that should end looks for that meanwhile, and then cancels what can be cancelled.

    Raises what the kernel raised, LimitExceededError (time), CancelledError.
    """
    while context.is_watched and not pending.future.done():
        context.check_cancelled()
        wait([pending.future], _LOOK_S)
    return pending.result()


def settle(futures: Iterable[Future[Any]]) -> None:
    """Cancel what it can and waits for the rest, which reads memory of the next run."""
    remaining = list(futures)
    uninterrupted(lambda: wait([future for future in remaining if not future.cancel()]))


def waiting(compute: Compute) -> Compute:
    """``compute`` as a synchronous one, for where nothing could be done while it is under way."""

    def synchronous(context: OpKernelContext, *inputs: Value) -> Value:
        result = begun(compute(context, *inputs))
        if not isinstance(result, Pending):
            return result
        try:
            return finished(result, context)
        finally:
            settle([result.future])

    return synchronous
