"""Finds the core that a thread runs on, and keeps threads off a core, on Linux."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Callable, Iterable
from functools import cache


def current_core() -> int | None:
    """Return the core that the calling thread is running on; None if unknown."""
    core = _current_core()()
    return core if core >= 0 else None


def usable_core_set() -> frozenset[int]:
    """Return the cores that the calling thread may run on; empty if unknown."""
    if not hasattr(os, "sched_getaffinity"):
        return frozenset()
    return frozenset(os.sched_getaffinity(0))


def restrict_to(cores: frozenset[int], native_ids: Iterable[int]) -> None:
    """Restrict threads of this process to these cores, as far as the system allows."""
    if hasattr(os, "sched_setaffinity") and cores:
        for native_id in native_ids:
            # The thread has ended, or the process has lost the cores in the meantime.
            with contextlib.suppress(OSError):
                os.sched_setaffinity(native_id, cores)


@cache
def _current_core() -> Callable[[], int]:
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # another C library
            get_core: Callable[[], int] = ctypes.CDLL(None).sched_getcpu
            return get_core
    return lambda: -1
