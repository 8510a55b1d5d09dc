"""Standard output and error as they may come: closed, full, gone, unable to show some letters."""

from __future__ import annotations

import errno
import io
import os
import sys
from contextlib import suppress
from typing import IO


class _ClosedOutput(io.TextIOBase):
    """Stands for a standard output that its caller closed (``>&-``): writing to it fails."""

    def write(self, _text: str, /) -> int:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    def fileno(self) -> int:
        raise io.UnsupportedOperation("fileno")


def prepare() -> None:
    """Makes both streams usable.

    A closed one is replaced, its number too: the next file that is opened would get it, and take
    what libraries print. A character that the encoding lacks is escaped instead of failing.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            with suppress(OSError):
                os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one
    # Python sets a stream to None where its number was closed, whatever its annotation says.
    streams: dict[str, IO[str] | None] = {"stdout": sys.stdout, "stderr": sys.stderr}
    if streams["stdout"] is None:
        sys.stdout = _ClosedOutput()
    if streams["stderr"] is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123  # open until the process ends
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            with suppress(ValueError, OSError):
                stream.reconfigure(errors="backslashreplace")


def discard_output() -> None:
    """Drops what standard output still buffers, so that the interpreter's end does not fail."""
    with suppress(OSError, ValueError):
        number = os.open(os.devnull, os.O_WRONLY)
        os.dup2(number, sys.stdout.fileno())
        os.close(number)


def flush_output() -> None:
    """Writes what is buffered for standard output. OSError where it cannot be written."""
    sys.stdout.flush()
