"""Spans of whole records in text files, with a limit on the length of records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ortpkg.foundations.errors import UsageError, quoted

#: Longest line of a text file, in bytes.
MOST_LINE_NBYTES = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Consecutive records of a text file.

    Attributes:
        first_row: Number of the first one in its file.
        count: Number of records.
        offset: Offset of the first one, in bytes.
        nbytes: Length in bytes.
    """

    first_row: int
    count: int
    offset: int
    nbytes: int


@contextmanager
def read_errors(path: Path) -> Iterator[None]:
    """Convert the system's error about an unreadable file to UsageError."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"cannot read {quoted(path)}: {error.strerror or error}") from error


def lines_of(file: BinaryIO, path: Path) -> Iterator[bytes]:
    """Yield the lines of a file with their ends.

    Raises:
        UsageError: A line is longer than allowed.
    """
    while line := file.readline(MOST_LINE_NBYTES + 1):
        if len(line) > MOST_LINE_NBYTES:
            raise UsageError(
                f"{quoted(path)} has a line of more than {MOST_LINE_NBYTES} bytes: it is not read"
            )
        yield line


def grouped(
    ends: Iterable[tuple[int, bool]], start: int, most_rows: int, most_nbytes: int
) -> Iterator[Span]:
    """Join consecutive stretches of a file to spans.

    Args:
        ends: End of each stretch, and True for a record (False for a blank line).
        start: Offset of the first stretch.
        most_rows, most_nbytes: Size at which a span ends, whichever is reached first.
    """
    first_row = count = 0
    offset = end = start
    for end, is_record in ends:
        count += is_record
        if count >= most_rows or (count and end - offset >= most_nbytes):
            yield Span(first_row=first_row, count=count, offset=offset, nbytes=end - offset)
            first_row, count, offset = first_row + count, 0, end
    if count:
        yield Span(first_row=first_row, count=count, offset=offset, nbytes=end - offset)


def read_span(path: Path, offset: int, nbytes: int) -> bytes:
    """Return the bytes of a span.

    Raises:
        UsageError: The file has become shorter since it was planned.
    """
    with read_errors(path), path.open("rb") as file:
        file.seek(offset)
        data = file.read(nbytes)
    if len(data) < nbytes:
        raise UsageError(f"{quoted(path)} has become shorter while the batch ran")
    return data
