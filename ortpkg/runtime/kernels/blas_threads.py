"""Set the thread count of numpy's linear-algebra library (``intra_op_num_threads``).

The library has one thread count per process. A session that sets a count has it only while one of
its runs is active: the first such run remembers the process's count, and the last one restores it.
If sessions with different counts run at the same time, the count set last holds for all of them.
A session with count 0 leaves the library as it is.

Products that are too small for a second thread are held to one: the library's threads wait for one
another by yielding their cores, and where other processes take these, a product of 60 µs lasts
80 ms. Measured on two cores: up to two million multiplications, two threads save nothing of a
product of matrices, and at most 0.1 ms of one with a single row or column.

A run is over once its lock is free (:mod:`ortpkg.foundations.host.turns`): if an interrupt keeps a
run from restoring the count, the next run restores it.

Kernels have no threads of their own. Measured on two cores: threads that share a kernel's numpy
calls wait for the interpreter's lock and for being woken, and have to keep the library idle
meanwhile; all of it cost more than it gained except for a few very large images.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from ortpkg.runtime.kernels.op_kernel import Tensor

ResultT = TypeVar("ResultT")

_HELD = 1
#: Products of fewer multiplications are held to one thread.
LEAST_SHARED_PRODUCTS = 2_000_000
#: OpenBLAS itself gives fewer multiplications one thread (interface/gemv.c and gemm.c).
_LEAST_THREADED_BY_LIBRARY = 2 << 18
_LEAST_THREADED_OF_A_VECTOR = 9216


class _Counts:
    """Thread counts that current runs request, and the library's counts before the first run."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # a signal handler may run a session while it is held
        #: Lock of a run → its count, and whether it holds the library to that count.
        self.requests: dict[threading.Lock, tuple[int, bool]] = {}
        self.original: list[tuple[object, int]] = []
        self.is_changed = False
        #: Count that the library was set to last; None while it is being changed or restored.
        self.count: int | None = None

    def settle(self) -> None:
        """Set the library's count to the current runs' request, or restore it after the last."""
        with self.lock:
            self.count = None
            for run in list(self.requests):
                if not run.locked():
                    self.requests.pop(run, None)
            requests = list(self.requests.values())
            if requests and not self.is_changed:
                libraries = _controller().lib_controllers
                self.original = [(library, library.get_num_threads()) for library in libraries]
                self.is_changed = True
            if self.is_changed:
                count = _count_of(requests)
                for library, original in self.original:
                    library.set_num_threads(count or original)  # type: ignore[attr-defined]
                self.is_changed = bool(requests)
                self.count = count


def _count_of(requests: Sequence[tuple[int, bool]]) -> int | None:
    """Return the count that requests (count, is held) ask for; None without any."""
    last_count = None
    for count, is_held in requests:
        if is_held:
            return _HELD
        last_count = count
    return last_count


_counts = _Counts()


@cache
def _controller() -> ThreadpoolController:
    """Find the BLAS libraries of this process; runs once, when a count is first needed."""
    return ThreadpoolController().select(user_api="blas")


def call_with_blas_threads(count: int, call: Callable[[], ResultT]) -> ResultT:
    """Return ``call()``, with ``count`` threads for linear algebra; 0 leaves the count as it is."""
    if count:
        return _called(count, call, is_held=False)
    if _counts.is_changed:  # an interrupted run may not have restored the count
        _counts.settle()
    return call()


def call_held_to_one_thread(call: Callable[[], ResultT]) -> ResultT:
    """Return ``call()``, with one thread: for products that are too small for a second one."""
    if _counts.count == _HELD:
        return call()
    return _called(_HELD, call, is_held=True)


def matmul(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    """Return ``np.matmul(a, b, out)`` with the threads that matrices of these sizes are worth."""
    if a.size * b.shape[-1] >= _LEAST_THREADED_OF_A_VECTOR and _is_for_one_thread(a, b):
        return call_held_to_one_thread(partial(np.matmul, a, b, out=out))
    return np.asarray(np.matmul(a, b, out=out))


def _is_for_one_thread(a: Tensor, b: Tensor) -> bool:
    """Return True if the library would share a product of such matrices, and gain nothing."""
    if a.dtype.kind not in "fc":
        return False
    rows, columns = a.shape[-2] if a.ndim > 1 else 1, b.shape[-1] if b.ndim > 1 else 1
    is_vector = rows == 1 or columns == 1
    least = _LEAST_THREADED_OF_A_VECTOR if is_vector else _LEAST_THREADED_BY_LIBRARY
    return bool(least <= rows * a.shape[-1] * columns < LEAST_SHARED_PRODUCTS)


def _called(count: int, call: Callable[[], ResultT], *, is_held: bool) -> ResultT:
    run = threading.Lock()
    try:
        with run:
            with _counts.lock:
                _counts.requests[run] = count, is_held
                _counts.settle()
            return call()
    finally:
        try:
            _counts.settle()
        except BaseException:  # interrupted: once more, since no other run may follow
            _counts.settle()
            raise


def _forget_runs() -> None:
    """Forget the parent's runs and locks in a forked child, where nobody would release them."""
    _counts.lock = threading.RLock()
    _counts.requests = {}
    _counts.settle()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_runs)
