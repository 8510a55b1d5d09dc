"""Memory of the machine, and memory that its processes hold.

``psutil`` answers most of it. It lacks the limits of control groups, and the peak of a process on
Linux.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from ortpkg.foundations.host.descendants import descendants_of

#: Files with a Linux container's limit of memory and with what it holds, relative to the root of
#: the file system: for version 2 of control groups, then for version 1.
CONTROL_GROUP_MEMORY = (
    ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory.current"),
    ("sys/fs/cgroup/memory/memory.limit_in_bytes", "sys/fs/cgroup/memory/memory.usage_in_bytes"),
)
_CGROUP_LIMITS = tuple(Path("/", limit) for limit, _ in CONTROL_GROUP_MEMORY)
#: Shortest time between two looks for descendants.
_LEAST_INTERVAL_S = 0.2


@cache
def machine_memory_nbytes() -> int:
    """Return the memory that this process can have, in bytes.

    That is the machine's, or its container's limit if that is less; ``sys.maxsize`` if the
    operating system does not say.
    """
    try:
        # Every run asks, so psutil, which does the same on these systems, is not loaded for this.
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except AttributeError:  # Windows
        total = physical_memory_nbytes()[0] or sys.maxsize
    except (ValueError, OSError):
        total = sys.maxsize
    return min([total, *_cgroup_limits()])


def _cgroup_limits() -> list[int]:
    """Return the limits of a Linux container in bytes; none on other systems."""
    limits = []
    for path in _CGROUP_LIMITS:
        with contextlib.suppress(OSError, ValueError):  # "max": none
            limits.append(int(path.read_text("ascii")))
    return limits


def physical_memory_nbytes() -> tuple[int | None, int | None]:
    """Return the machine's memory, and its available memory, in bytes; None if unknown."""
    import psutil  # not worth its import where nobody asks

    try:
        memory = psutil.virtual_memory()
    except (OSError, psutil.Error):
        return None, None
    return int(memory.total), int(memory.available)


def resident_nbytes(pid: int | None = None) -> int:
    """Return the memory of a process that is in RAM, in bytes, shared libraries included.

    0 if the system does not say.

    Args:
        pid: number of the process; None for this one.
    """
    import psutil  # see above

    try:
        return int(_process(os.getpid() if pid is None else pid).memory_info().rss)
    except (OSError, ValueError, psutil.Error):
        return 0


@lru_cache(maxsize=64)
def _process(pid: int) -> Any:
    """Return psutil's view of a process, cached: making it takes longer than asking its memory."""
    import psutil  # see above

    return psutil.Process(pid)


def peak_memory_nbytes(status: Path = Path("/proc/self/status")) -> int | None:
    """Return the most memory that this process has held since its program started, in bytes.

    None if the system does not say. On Linux this is ``VmHWM``, not ``ru_maxrss``, which starts at
    what the *parent* held when it made this process.

    Args:
        status: the kernel's file about the process, for tests.
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
    """Memory of all processes below a given one; 0 on systems other than Linux.

    Only private memory counts; pages that a fork shares belong to the process that it was made
    from. A process that cut itself loose (a daemon) is not included.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._found_at = -_LEAST_INTERVAL_S
        self._nbytes = 0

    def nbytes(self) -> int:
        """Return the sum in bytes, at most 0.2 s old: looking costs more than for one process."""
        now = time.monotonic()
        if sys.platform == "linux" and now - self._found_at >= _LEAST_INTERVAL_S:
            self._found_at = now
            self._nbytes = sum(map(_private_nbytes, descendants_of(self._pid)))
        return self._nbytes


def _private_nbytes(pid: int) -> int:
    """Return the memory that a process shares with no other, in bytes; 0 if it has ended."""
    import psutil  # see above

    try:
        return int(psutil.Process(pid).memory_full_info().uss)
    except (OSError, ValueError, psutil.Error):
        return 0
