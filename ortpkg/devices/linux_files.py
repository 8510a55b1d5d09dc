"""Read the small files of sysfs and procfs under a root.

Never raises, never waits, never reads much.

A tree may be a recorded or a hostile one: links that loop, pipes, files without end, bytes that are
no text. Whatever cannot be read in one bounded step is None.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

_MOST_BYTES = 1 << 16
_MOST_ENTRIES = 4096
#: A name or version of a device is shorter; what is longer is cut.
_MOST_CHARACTERS = 256
#: sysfs gives a whole file in one read.
_ONE_READ = 4096
_NOT_BLOCKING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


def entries(directory: Path) -> list[Path]:
    """What lies in a directory, sorted by name; empty where it cannot be listed."""
    try:
        names = sorted(os.listdir(directory))  # noqa: PTH208 - sorting paths takes ten times as long
    except OSError:
        return []
    return [directory / name for name in names[:_MOST_ENTRIES]]


def link_name(link: Path) -> str | None:
    """The last part of where a symbolic link points; None where there is no link."""
    try:
        return os.path.basename(os.readlink(link))  # noqa: PTH115, PTH119 - the text of the link, not what it resolves to
    except OSError:
        return None


def text(path: Path, *, nbytes: int = _MOST_BYTES) -> str | None:
    """The first ``nbytes`` of a regular file as text, stripped of white space and NULs.

    None where nothing is left.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | _NOT_BLOCKING)
    except (OSError, ValueError):
        return None
    try:
        # Opened without waiting and looked at before it is read: a pipe or a terminal could keep us
        # for ever.
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        return _read(descriptor, nbytes).decode("utf-8", "replace").strip(" \t\r\n\0") or None
    except OSError:
        return None
    finally:
        os.close(descriptor)


def line(path: Path) -> str | None:
    """The first line of a file, of bounded length, for names and versions."""
    found = text(path, nbytes=4 * _MOST_CHARACTERS)
    return found.splitlines()[0].strip()[:_MOST_CHARACTERS] or None if found else None


def integer(path: Path) -> int | None:
    """A decimal number of at most 18 digits."""
    found = text(path, nbytes=32)
    return int(found) if found and re.fullmatch(r"[0-9]{1,18}", found) else None


def hexadecimal(path: Path) -> int | None:
    """A hexadecimal number of at most 32 bits."""
    found = text(path, nbytes=32)
    return int(found, 16) if found and re.fullmatch(r"(0x)?[0-9a-fA-F]{1,8}", found) else None


def exists(path: Path) -> bool:
    """Whether something is there, also if it is a link to nowhere."""
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
