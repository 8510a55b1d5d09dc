"""On which core a thread runs, and keeping threads off a core, where the system has it (Linux)."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Callable, Iterable
from functools import cache


def current_core() -> int | None:
    """The core that the calling thread is on at the moment; None where nobody says so."""
    core = _current_core()()
    return core if core >= 0 else None


def usable_core_set() -> frozenset[int]:
    """The cores that the calling thread may run on; empty where nobody says so."""
    if not hasattr(os, "sched_getaffinity"):
        return frozenset()
    return frozenset(os.sched_getaffinity(0))


def restrict_to(cores: frozenset[int], native_ids: Iterable[int]) -> None:
    """Has threads of this process run on these cores alone, as far as the system lets them."""
    if hasattr(os, "sched_setaffinity") and cores:
        for native_id in native_ids:
            # The thread has ended, or the cores were taken from this process since.
            with contextlib.suppress(OSError):
                os.sched_setaffinity(native_id, cores)


@cache
def _current_core() -> Callable[[], int]:
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # another C library
            found: Callable[[], int] = ctypes.CDLL(None).sched_getcpu
            return found
    return lambda: -1
