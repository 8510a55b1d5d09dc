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

from ortpkg.foundations.host.turns import uninterrupted
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, Value

#: Seconds between checks whether a run with limits should go on waiting.
_LOOK_S = 0.02


class Pending:
    """Future result of an asynchronous kernel, with functions to apply to it first."""

    def __init__(self, future: Future[Any], finish: Callable[[Any], Value] | None = None) -> None:
        self.future = future
        self._finish: list[Callable[[Any], Value]] = [] if finish is None else [finish]
        self._lock = threading.Lock()
        self._results: list[Value] = []

    def then(self, finish: Callable[[Any], Value]) -> Pending:
        """Apply ``finish`` to the result, after earlier functions, and return this object.

        Must be called before the result is requested.
        """
        self._finish.append(finish)
        return self

    def result(self, timeout_s: float | None = None) -> Value:
        """Wait for the result, and return it.

        Raises:
            TimeoutError: it takes longer than ``timeout_s``.
            BaseException: whatever the kernel raised.
        """
        value = self.future.result(timeout_s)
        with self._lock:
            if not self._results:
                for finish in self._finish:
                    value = finish(value)
                self._results.append(value)
            return self._results[0]


class PendingValue:
    """Output of a node under way, for a non-strict node: ``result()`` waits for it."""

    def __init__(self, pending: Pending, position: int) -> None:
        self._pending = pending
        self._position = position

    def done(self) -> bool:
        """Return True if :meth:`result` would not wait."""
        return self._pending.future.done()

    def result(self, timeout_s: float | None = None) -> Value:
        """Wait for the value, and return it.

        Raises:
            TimeoutError: it takes longer than ``timeout_s``.
            BaseException: whatever the node raised.
        """
        outputs = self._pending.result(timeout_s)
        return outputs[self._position] if isinstance(outputs, tuple) else outputs


def begun(result: Any) -> Value | Pending:
    """Return the result of a compute function, with a Future wrapped in a :class:`Pending`."""
    return Pending(result) if isinstance(result, Future) else result


def finished(pending: Pending, context: OpKernelContext) -> Value:
    """Wait for ``pending``, and return its result.

    A run that should end notices that meanwhile, and cancels what can be cancelled.

    Raises:
        LimitExceededError: the time limit was passed.
        CancelledError: the caller ended the run.
        BaseException: whatever the kernel raised.
    """
    while context.is_watched and not pending.future.done():
        context.check_cancelled()
        wait([pending.future], _LOOK_S)
    return pending.result()


def settle(futures: Iterable[Future[Any]]) -> None:
    """Cancel what can be cancelled, and wait for the rest, which reads the run's memory."""
    remaining = list(futures)
    uninterrupted(lambda: wait([future for future in remaining if not future.cancel()]))


def waiting(compute: Compute) -> Compute:
    """Return ``compute`` as a synchronous function, if nothing could run while it is under way."""

    def synchronous(context: OpKernelContext, *inputs: Value) -> Value:
        result = begun(compute(context, *inputs))
        if not isinstance(result, Pending):
            return result
        try:
            return finished(result, context)
        finally:
            settle([result.future])

    return synchronous
