"""Gives back memory that libraries in this process have and need no more: pages of mapped files,
freed memory.

Linux only. Pages of files stay in the system's page cache, and come back when they are touched;
only the process no longer counts them.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Iterator
from pathlib import Path

_MADV_DONTNEED = 4
_FIELDS_BEFORE_PATH = 5


def release_mapped_pages(path: Path) -> None:
    """Releases pages of every read-only mapping of the file; nothing where the system tells of no
    mappings.
    """
    if not sys.platform.startswith("linux"):
        return
    with contextlib.suppress(OSError, AttributeError, ValueError):
        advise = ctypes.CDLL(None, use_errno=True).madvise
        advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        for start, end in _read_only_mappings(str(path.resolve())):
            advise(start, end - start, _MADV_DONTNEED)


def trim_heap() -> None:
    """Gives back what was freed and the C library keeps for itself; nothing where it has no such
    call (not glibc).
    """
    if not sys.platform.startswith("linux"):
        return
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(ctypes.c_size_t(0))


def _read_only_mappings(path: str) -> Iterator[tuple[int, int]]:
    """Ranges that nobody can have written to: there, releasing loses nothing."""
    for line in (
        Path("/proc/self/maps").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    ):
        fields = line.split(maxsplit=_FIELDS_BEFORE_PATH)
        if len(fields) > _FIELDS_BEFORE_PATH and fields[-1] == path and "w" not in fields[1]:
            start, end = (int(each, 16) for each in fields[0].split("-"))
            yield start, end
