"""Finds the processes below a process, without a look at all others of the machine."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_MOST_DESCENDANTS = 1000


def descendants_of(pid: int) -> list[int]:
    """Return the living processes that a process started, and those that these started.

    Empty on systems other than Linux. A process that cut itself loose (a daemon) is not included.

    Args:
        pid: number of the process at the top.

    Returns:
        Numbers of the processes, about 1000 at most.
    """
    # psutil's children() reads every process of the machine: some ms, too long for each poll.
    descendants: list[int] = []
    waiting = [pid]
    while waiting and len(descendants) < _MOST_DESCENDANTS:
        children = _children(waiting.pop())
        descendants += children
        waiting += children
    return descendants


def _children(pid: int) -> list[int]:
    """Return the processes that any thread of this one started; none if it has ended."""
    children: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.scandir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError, ValueError):
                children += map(
                    int, Path(thread.path, "children").read_text(encoding="ascii").split()
                )
    return children
