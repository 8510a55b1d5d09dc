"""One way to write a file that a caller asked for: whole or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO
from uuid import uuid4


def write_output(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Hands a file to ``write``, which appears at ``path`` when that is done.

    It has the permissions of the file that it replaces, or those that the process gives new files.
    A symbolic link is followed; what is no regular file (a device, a pipe) is written to. Raises
    OSError, and what ``write`` raises; then everything is as it was.
    """
    real = Path(os.path.realpath(path))
    try:
        mode: int | None = real.stat().st_mode
    except FileNotFoundError:
        mode = None
    if mode is not None and not stat.S_ISREG(mode):
        with real.open("wb") as file:
            write(file)
        return
    if mode is not None and not os.access(real, os.W_OK):
        raise PermissionError("it is read-only")
    _replace(real, write, mode)


def _replace(path: Path, write: Callable[[IO[bytes]], object], mode: int | None) -> None:
    temporary = path.with_name(f".ortpkg-{uuid4().hex}.tmp")
    # Mode 666 less the umask is what programs give new files; temporary files of the library are
    # for the owner alone.
    descriptor = os.open(
        temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666
    )
    try:
        with os.fdopen(descriptor, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            temporary.chmod(stat.S_IMODE(mode))
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
