"""Write a file that a caller asked for: whole or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import IO

from ortpkg.foundations.storage.file_replacement import replace_file


def write_output(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Call ``write`` with a file that appears at ``path`` when it is done.

    It has the permissions of the file that it replaces, or this process's default. A symbolic link
    is followed; a device or a pipe is written to.

    Raises:
        OSError: the file cannot be written. Exceptions of ``write`` pass through. Everything is as
            it was.
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
    replace_file(real, write, mode=None if mode is None else stat.S_IMODE(mode))
