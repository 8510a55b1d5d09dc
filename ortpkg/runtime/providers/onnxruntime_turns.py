"""Locks for execution providers of onnxruntime whose sessions must not work at the same time.

onnxruntime can lock one session, not several against each other. An execution provider whose
sessions share a device without a lock crashes the process if two sessions run at once, or one runs
while another is made.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from ortpkg.foundations.isolation.run_watch import WatchedRun

#: Seen with onnxruntime-ep-webgpu 0.4.0: all sessions record commands into one encoder.
_ONE_AT_A_TIME = ("WebGpuExecutionProvider",)
#: Seconds after which a waiting run checks again whether it was cancelled.
_INTERVAL_S = 0.02
_NO_TURN: AbstractContextManager[object] = nullcontext()
_locks: dict[str, threading.RLock] = {}


def turn(ep_name: str, context: WatchedRun | None = None) -> AbstractContextManager[object]:
    """Return a context in which no other session of an execution provider works.

    The context does nothing for execution providers that need no lock, which are most.

    Args:
        ep_name: onnxruntime's name of the execution provider.
        context: context of a run; entering raises CancelledError or LimitExceededError if the run
            is cancelled, or its time is up, while it waits.
    """
    lock = _locks.get(ep_name)
    if lock is None:
        return _NO_TURN
    return lock if context is None or not context.is_watched else _watched_turn(lock, context)


@contextmanager
def _watched_turn(lock: threading.RLock, context: WatchedRun) -> Iterator[None]:
    while not lock.acquire(timeout=_INTERVAL_S):
        context.check_cancelled()
    try:
        yield
    finally:
        lock.release()


def takes_turns(ep_name: str) -> bool:
    """Return True if sessions of that execution provider must not work at the same time."""
    return ep_name in _ONE_AT_A_TIME


def _make_locks() -> None:
    """Make the locks; again in a forked child, where the parent's threads release none."""
    _locks.update({ep_name: threading.RLock() for ep_name in _ONE_AT_A_TIME})


_make_locks()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_make_locks)
