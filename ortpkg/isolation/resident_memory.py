"""How much memory a process holds now, and those that it has started."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import time
from ctypes import wintypes
from functools import cache
from pathlib import Path
from typing import Any

_QUERY = 0x1000  # PROCESS_QUERY_LIMITED_INFORMATION
_RUSAGE_INFO_V0 = 0
#: Descendants are looked for no more often.
_LEAST_INTERVAL_S = 0.2
_MOST_DESCENDANTS = 1000


def resident_nbytes(pid: int | None = None) -> int:
    """Memory of the process (of this one) that is in RAM, shared libraries included; 0 where the
    system does not say.

    Sources: ``/proc/<pid>/statm`` (Linux), ``proc_pid_rusage`` (macOS), ``GetProcessMemoryInfo``
        (Windows).
    """
    try:
        if sys.platform == "win32":
            return _windows(os.getpid() if pid is None else pid)
        if sys.platform == "darwin":
            return _macos(os.getpid() if pid is None else pid)
        return _linux("self" if pid is None else str(pid))
    except (OSError, ValueError, IndexError, AttributeError):
        return 0


def _linux(pid: str) -> int:
    descriptor = os.open(f"/proc/{pid}/statm", os.O_RDONLY)
    try:
        return int(os.read(descriptor, 256).split()[1]) * os.sysconf("SC_PAGE_SIZE")
    finally:
        os.close(descriptor)


class _RusageInfo(ctypes.Structure):
    """rusage_info_v0 of macOS (``sys/resource.h``)."""

    _fields_ = (
        ("ri_uuid", ctypes.c_uint8 * 16),
        ("ri_user_time", ctypes.c_uint64),
        ("ri_system_time", ctypes.c_uint64),
        ("ri_pkg_idle_wkups", ctypes.c_uint64),
        ("ri_interrupt_wkups", ctypes.c_uint64),
        ("ri_pageins", ctypes.c_uint64),
        ("ri_wired_size", ctypes.c_uint64),
        ("ri_resident_size", ctypes.c_uint64),
        ("ri_phys_footprint", ctypes.c_uint64),
        ("ri_proc_start_abstime", ctypes.c_uint64),
        ("ri_proc_exit_abstime", ctypes.c_uint64),
    )


def _macos(pid: int) -> int:
    info = _RusageInfo()
    failed = _library("/usr/lib/libSystem.B.dylib").proc_pid_rusage(
        pid, _RUSAGE_INFO_V0, ctypes.byref(info)
    )
    return 0 if failed else int(info.ri_resident_size)


class _ProcessMemoryCounters(ctypes.Structure):
    """PROCESS_MEMORY_COUNTERS of the Windows API."""

    _fields_ = (
        ("cb", ctypes.c_uint32),
        ("PageFaultCount", ctypes.c_uint32),
        ("PeakWorkingSetSize", ctypes.c_size_t),
        ("WorkingSetSize", ctypes.c_size_t),
        ("QuotaPeakPagedPoolUsage", ctypes.c_size_t),
        ("QuotaPagedPoolUsage", ctypes.c_size_t),
        ("QuotaPeakNonPagedPoolUsage", ctypes.c_size_t),
        ("QuotaNonPagedPoolUsage", ctypes.c_size_t),
        ("PagefileUsage", ctypes.c_size_t),
        ("PeakPagefileUsage", ctypes.c_size_t),
    )


if sys.platform == "win32":

    def _windows(pid: int) -> int:
        kernel32, psapi = ctypes.windll.kernel32, ctypes.windll.psapi
        kernel32.OpenProcess.restype = wintypes.HANDLE
        kernel32.CloseHandle.argtypes = (wintypes.HANDLE,)
        psapi.GetProcessMemoryInfo.argtypes = (wintypes.HANDLE, ctypes.c_void_p, wintypes.DWORD)
        process = kernel32.OpenProcess(_QUERY, False, pid)
        if not process:
            return 0
        try:
            counters = _ProcessMemoryCounters(cb=ctypes.sizeof(_ProcessMemoryCounters))
            found = psapi.GetProcessMemoryInfo(process, ctypes.byref(counters), counters.cb)
            return int(counters.WorkingSetSize) if found else 0
        finally:
            kernel32.CloseHandle(process)


@cache
def _library(path: str) -> Any:
    return ctypes.CDLL(path)


class DescendantMemory:
    """What the processes hold that a process has started, and those have started; on Linux,
    elsewhere nothing.

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
            self._nbytes = sum(map(_private_nbytes, _descendants(self._pid)))
        return self._nbytes


def _descendants(pid: int) -> list[int]:
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


def _private_nbytes(pid: int) -> int:
    """What it shares with nobody, by ``smaps_rollup``; 0 where it is gone."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) << 10
    return 0
