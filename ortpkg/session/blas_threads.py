"""Threads of the linear-algebra library during a run (``intra_op_num_threads``).

numpy's BLAS has one thread count per process. A session that sets a count has it only while one of its runs is under
way: the first such run remembers what the process had, the last gives it back. Where sessions with different counts
run at the same time, the count set last holds for all of them. A session with count 0 touches nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_original: list[tuple[object, int]] = []
_active_runs = 0


@cache
def _controller() -> ThreadpoolController:
    """The BLAS libraries of this process; looked for once, when a session first sets a count."""
    return ThreadpoolController().select(user_api="blas")


@contextmanager
def blas_threads(count: int) -> Iterator[None]:
    """Gives the linear-algebra library ``count`` threads within the block; 0 leaves it as it is."""
    if not count:
        yield
        return
    _enter(count)
    try:
        yield
    finally:
        _leave()


def _enter(count: int) -> None:
    global _active_runs  # noqa: PLW0603 - the library's thread count is the process's, and so is this one
    with _lock:
        libraries = _controller().lib_controllers
        if _active_runs == 0:
            _original[:] = [(library, library.get_num_threads()) for library in libraries]
        _active_runs += 1
        for library in libraries:
            library.set_num_threads(count)


def _leave() -> None:
    global _active_runs  # noqa: PLW0603
    with _lock:
        _active_runs -= 1
        if _active_runs == 0:
            for library, count in _original:
                library.set_num_threads(count)  # type: ignore[attr-defined]
