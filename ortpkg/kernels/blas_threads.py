"""How many threads numpy's linear-algebra library has (``intra_op_num_threads``).

The library has one thread count per process. A session that sets a count has it only while one of
its runs is under way: the first such run remembers what the process had, the last gives it back.
Where sessions with different counts run at the same time, the count set last holds for all of them.
A session with count 0 leaves the library as it is.

Kernels have no threads of their own. Measured on two cores: threads that share a kernel's numpy
calls wait for the interpreter's lock and for being woken, and have to make the library idle
meanwhile; all of it cost more than it gave but for a few very large images.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_original: list[tuple[object, int]] = []
_wanted = 0
_active_runs = 0
_holders = 0


@cache
def _controller() -> ThreadpoolController:
    """The BLAS libraries of this process; looked for once, when a count is first needed."""
    return ThreadpoolController().select(user_api="blas")


@contextmanager
def blas_threads(count: int) -> Iterator[None]:
    """Gives the linear-algebra library ``count`` threads within the block; 0 leaves it as it is."""
    global _wanted, _active_runs  # noqa: PLW0603 - the library's thread count is the process's, and so is this one
    if not count:
        yield
        return
    with _lock:
        _remember()
        _active_runs += 1
        _wanted = count
        _apply()
    try:
        yield
    finally:
        with _lock:
            _active_runs -= 1
            if not _active_runs:
                _wanted = 0
                _apply()


@contextmanager
def held_to_one_thread() -> Iterator[None]:
    """One thread within the block: for many products, each too small to be worth a second one."""
    global _holders  # noqa: PLW0603
    with _lock:
        _remember()
        _holders += 1
        if _holders == 1:
            _apply()
    try:
        yield
    finally:
        with _lock:
            _holders -= 1
            if not _holders:
                _apply()


def _remember() -> None:
    """Notes what the process has, where nobody here has changed it yet."""
    if not _active_runs and not _holders:
        _original[:] = [
            (library, library.get_num_threads()) for library in _controller().lib_controllers
        ]


def _apply() -> None:
    for library, count in _original:
        library.set_num_threads(1 if _holders else _wanted or count)  # type: ignore[attr-defined]


def _forget_runs() -> None:
    """Forgets the runs and locks of a forked child's parent, for which nobody would let go."""
    global _lock, _wanted, _active_runs, _holders  # noqa: PLW0603
    _lock = threading.Lock()
    if _holders or _active_runs:
        _wanted = _active_runs = _holders = 0
        _apply()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_runs)
