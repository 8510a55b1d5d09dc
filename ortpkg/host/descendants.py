"""The processes below a process, found without a look at all others of the machine."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_MOST_DESCENDANTS = 1000


def descendants_of(pid: int) -> list[int]:
    """Processes that a process started, and those that these started, as far as they live.

    Known on Linux, elsewhere none. One that cut itself loose (a daemon) is nobody's descendant.
    """
    # psutil's children() reads every process of the machine: some ms, and this is asked all along.
    found: list[int] = []
    waiting = [pid]
    while waiting and len(found) < _MOST_DESCENDANTS:
        children = _children(waiting.pop())
        found += children
        waiting += children
    return found


def _children(pid: int) -> list[int]:
    """Those that any of its threads started; none where it is gone, or the system does not say."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.scandir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError, ValueError):
                found += map(int, Path(thread.path, "children").read_text(encoding="ascii").split())
    return found
