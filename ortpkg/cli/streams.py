"""Standard output and error in any state: closed, full, gone, or with a limited encoding.

A command's own streams are replaced by :class:`StandardFile`, which decides in one place what a
failed write does. The interpreter flushes both streams when it ends, and would convert a failure
there to exit code 120; so nothing fails any more once a command has its exit code.
"""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from contextlib import suppress
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_OUTPUT, _ERROR = 1, 2


class StandardOutputError(OSError):
    """Standard output cannot be written: it is closed, or the disk is full.

    If the reader has gone, it is a BrokenPipeError instead.
    """


class StandardFile(io.FileIO):
    """Descriptor of a standard stream.

    While ``reports`` is true, a failed write raises; after that what cannot be written is dropped.
    """

    def __init__(self, number: int, *, reports: bool, was_closed: bool) -> None:
        super().__init__(number, "w", closefd=False)
        self.reports = reports
        self._was_closed = was_closed

    def write(self, data: ReadableBuffer, /) -> int:
        """Write ``data`` and return the number of bytes written, or dropped.

        Raises:
            BrokenPipeError, StandardOutputError: The write failed while failures are reported.
        """
        try:
            if self._was_closed:
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            # A descriptor that a parent has made non-blocking returns None while it is full.
            while (written := super().write(data)) is None:
                select.select([], [self], [])
        except OSError as error:
            if not self.reports:
                return memoryview(data).nbytes
            if isinstance(error, BrokenPipeError):
                raise
            raise StandardOutputError(error.errno, error.strerror) from error
        return written


def prepare() -> None:
    """Make both streams usable; standard error drops what cannot be written.

    The number of a closed stream is occupied, because the next opened file would get it and receive
    what libraries print. A character that the encoding lacks is escaped.
    """
    closed = {number for number in range(3) if _take_if_closed(number)}
    if _is_interpreters_own(sys.stdout, sys.__stdout__):
        sys.stdout = _replaced(sys.stdout, _OUTPUT, was_closed=_OUTPUT in closed)
    if _is_interpreters_own(sys.stderr, sys.__stderr__):
        sys.stderr = _replaced(sys.stderr, _ERROR, was_closed=_ERROR in closed)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            with suppress(ValueError, OSError):
                stream.reconfigure(errors="backslashreplace")
    if (output := _file_of(sys.stdout)) is not None:
        output.reports = True  # an earlier command line of this process may have settled it


def flush_output() -> None:
    """Write what is buffered for standard output.

    Raises:
        OSError: It cannot be written.
    """
    sys.stdout.flush()


def settle() -> None:
    """Write what both streams buffer, and drop what cannot be written, from now on.

    It is called when a command's exit code is certain.
    """
    for stream in (sys.stdout, sys.stderr):
        if (file := _file_of(stream)) is not None:
            file.reports = False
        with suppress(OSError, ValueError):
            stream.flush()


def _file_of(stream: IO[str]) -> StandardFile | None:
    """Return the file under a stream that :func:`prepare` made, else None."""
    file = getattr(getattr(stream, "buffer", None), "raw", None)
    return file if isinstance(file, StandardFile) else None


def _take_if_closed(number: int) -> bool:
    """Open the null device under ``number`` if the descriptor is closed; return if it was."""
    try:
        os.fstat(number)
    except OSError:
        with suppress(OSError):
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
        return True
    return False


def _is_interpreters_own(stream: IO[str] | None, original: IO[str] | None) -> bool:
    """Return True for the stream of a process; False for one that a test or a caller put there.

    Python sets a stream to None where its descriptor was closed. A console of Windows has a file of
    its own kind, and is left alone.
    """
    if stream is None:
        return True
    raw = getattr(getattr(stream, "buffer", None), "raw", getattr(stream, "buffer", None))
    return stream is original and type(raw) is io.FileIO


def _replaced(stream: IO[str] | None, number: int, *, was_closed: bool) -> io.TextIOWrapper:
    """Return a stream on a :class:`StandardFile` that is otherwise like ``stream``."""
    file = StandardFile(number, reports=number == _OUTPUT, was_closed=was_closed)
    is_prompt = number == _ERROR
    if isinstance(stream, io.TextIOWrapper):
        with suppress(OSError, ValueError):
            stream.flush()
        # With PYTHONUNBUFFERED the interpreter's stream writes through, and loses what a short
        # write leaves over. Lines are as prompt, and the buffer writes the rest.
        is_prompt = stream.line_buffering or stream.write_through
    return io.TextIOWrapper(
        io.BufferedWriter(file),
        encoding=getattr(stream, "encoding", "utf-8"),
        errors="backslashreplace",
        line_buffering=is_prompt,
    )
