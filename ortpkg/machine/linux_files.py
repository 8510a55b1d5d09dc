"""Read small files of sysfs and procfs under a root, without errors, waiting or large reads.

A tree may be recorded or hostile: links that loop, pipes, endless files, bytes that are not text.
Whatever cannot be read in one bounded step is None.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

_MOST_BYTES = 1 << 16
_MOST_ENTRIES = 4096
#: Longest name or version of a device; longer ones are cut.
_MOST_CHARACTERS = 256
#: sysfs returns a whole file in one read.
_ONE_READ = 4096
_NOT_BLOCKING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


def entries(directory: Path) -> list[Path]:
    """Return the paths in a directory, sorted by name; empty if it cannot be listed."""
    try:
        names = sorted(os.listdir(directory))  # noqa: PTH208 - sorting paths takes ten times as long
    except OSError:
        return []
    return [directory / name for name in names[:_MOST_ENTRIES]]


def link_name(link: Path) -> str | None:
    """Return the last part of a symbolic link's target; None if there is no link."""
    try:
        return os.path.basename(os.readlink(link))  # noqa: PTH115, PTH119 - the text of the link, not what it resolves to
    except OSError:
        return None


def text(path: Path, *, nbytes: int = _MOST_BYTES) -> str | None:
    """Return the first ``nbytes`` of a regular file as text, stripped of white space and NULs.

    None if nothing is left.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | _NOT_BLOCKING)
    except (OSError, ValueError):
        return None
    try:
        # Opened without waiting and checked before it is read: a pipe or a terminal could block
        # forever.
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        return _read(descriptor, nbytes).decode("utf-8", "replace").strip(" \t\r\n\0") or None
    except OSError:
        return None
    finally:
        os.close(descriptor)


def line(path: Path) -> str | None:
    """Return the first line of a file, of bounded length, for names and versions."""
    content = text(path, nbytes=4 * _MOST_CHARACTERS)
    return content.splitlines()[0].strip()[:_MOST_CHARACTERS] or None if content else None


def integer(path: Path) -> int | None:
    """Return a decimal number of at most 18 digits in a file; None for anything else."""
    content = text(path, nbytes=32)
    return int(content) if content and re.fullmatch(r"[0-9]{1,18}", content) else None


def hexadecimal(path: Path) -> int | None:
    """Return a hexadecimal number of at most 32 bits in a file; None for anything else."""
    content = text(path, nbytes=32)
    return int(content, 16) if content and re.fullmatch(r"(0x)?[0-9a-fA-F]{1,8}", content) else None


def exists(path: Path) -> bool:
    """Return True if the path exists, even as a broken link."""
    try:
        return os.path.lexists(path)
    except (OSError, ValueError):
        return False


def _read(descriptor: int, nbytes: int) -> bytes:
    if nbytes <= _ONE_READ:
        return os.read(descriptor, nbytes)
    data = b""
    while len(data) < nbytes and (more := os.read(descriptor, nbytes - len(data))):
        data += more
    return data
