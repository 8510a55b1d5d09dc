"""How much memory the machine has, and how much processes of it hold.

By hand is what ``psutil`` lacks: the limits of control groups, and the peak of a process on Linux.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from ortpkg.host.descendants import descendants_of

#: Below the root of the system, where a Linux container has its limit of memory and says what it
#: holds: version 2 of control groups, version 1.
CONTROL_GROUP_MEMORY = (
    ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory.current"),
    ("sys/fs/cgroup/memory/memory.limit_in_bytes", "sys/fs/cgroup/memory/memory.usage_in_bytes"),
)
_CGROUP_LIMITS = tuple(Path("/", limit) for limit, _ in CONTROL_GROUP_MEMORY)
#: Descendants are looked for no more often.
_LEAST_INTERVAL_S = 0.2


@cache
def machine_memory_nbytes() -> int:
    """The memory that this process can have: the machine's, or its container's where that is less.

    ``sys.maxsize`` where the operating system does not say.
    """
    try:
        # Every run asks; psutil, which does the same on these systems, is not loaded for that.
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except AttributeError:  # Windows
        total = physical_memory_nbytes()[0] or sys.maxsize
    except (ValueError, OSError):
        total = sys.maxsize
    return min([total, *_cgroup_limits()])


def _cgroup_limits() -> list[int]:
    """Limits of a Linux container, version 2 and 1 of control groups; none on other systems."""
    limits = []
    for path in _CGROUP_LIMITS:
        with contextlib.suppress(OSError, ValueError):  # "max": none
            limits.append(int(path.read_text("ascii")))
    return limits


def physical_memory_nbytes() -> tuple[int | None, int | None]:
    """The machine's memory, and what of it is available now; None where the system does not say."""
    import psutil  # not worth its import where nobody asks

    try:
        found = psutil.virtual_memory()
    except (OSError, psutil.Error):
        return None, None
    return int(found.total), int(found.available)


def resident_nbytes(pid: int | None = None) -> int:
    """Memory of the process (of this one) that is in RAM, shared libraries included.

    0 where the system does not say.
    """
    import psutil  # see above

    try:
        return int(_process(os.getpid() if pid is None else pid).memory_info().rss)
    except (OSError, ValueError, psutil.Error):
        return 0


@lru_cache(maxsize=64)
def _process(pid: int) -> Any:
    """psutil's view of a process, kept: to make it takes longer than to ask it for its memory."""
    import psutil  # see above

    return psutil.Process(pid)


def peak_memory_nbytes(status: Path = Path("/proc/self/status")) -> int | None:
    """The most memory that this process has held at one time since its program started.

    None where the system does not tell.

    On Linux ``VmHWM``, not ``ru_maxrss``: that one starts at what the *parent* held when it made
        this process.
    """
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in status.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    try:
        import resource  # POSIX only
    except ImportError:
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


class DescendantMemory:
    """The memory of all processes below a given one; known on Linux, elsewhere none.

    Only memory that is theirs alone counts: pages that a fork shares with the process that it was
    made from are that one's. One that cut itself loose (a daemon) is nobody's descendant.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._found_at = -_LEAST_INTERVAL_S
        self._nbytes = 0

    def nbytes(self) -> int:
        """As it was a moment ago, at most: to look costs more than to look at one process."""
        now = time.monotonic()
        if sys.platform == "linux" and now - self._found_at >= _LEAST_INTERVAL_S:
            self._found_at = now
            self._nbytes = sum(map(_private_nbytes, descendants_of(self._pid)))
        return self._nbytes


def _private_nbytes(pid: int) -> int:
    """What it shares with nobody; 0 where it is gone."""
    import psutil  # see above

    try:
        return int(psutil.Process(pid).memory_full_info().uss)
    except (OSError, ValueError, psutil.Error):
        return 0
