"""Text files in spans of whole records, with records that are bounded in length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ortpkg.errors import UsageError, quoted

#: The longest line of a text file.
MOST_LINE_NBYTES = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Consecutive records of a text file.

    Attributes:
        first_row: the number of the first one in its file.
        count: how many.
        offset: where they begin, in bytes.
        nbytes: how long they are.
    """

    first_row: int
    count: int
    offset: int
    nbytes: int


@contextmanager
def read_errors(path: Path) -> Iterator[None]:
    """Types what the system says of a file that cannot be read."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"cannot read {quoted(path)}: {error.strerror or error}") from error


def lines_of(file: BinaryIO, path: Path) -> Iterator[bytes]:
    """The lines of a file, with their ends. UsageError for one that is longer than any may be."""
    while line := file.readline(MOST_LINE_NBYTES + 1):
        if len(line) > MOST_LINE_NBYTES:
            raise UsageError(
                f"{quoted(path)} has a line of more than {MOST_LINE_NBYTES} bytes: it is not read"
            )
        yield line


def grouped(
    ends: Iterable[tuple[int, bool]], start: int, most_rows: int, most_nbytes: int
) -> Iterator[Span]:
    """Puts consecutive stretches of a file together to spans.

    Args:
        ends: where each stretch ends, and whether it is a record (or blank).
        start: where the first one begins.
        most_rows, most_nbytes: how long a span becomes, whichever is reached first.
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
    """The bytes of a span. UsageError where the file has become shorter since it was looked at."""
    with read_errors(path), path.open("rb") as file:
        file.seek(offset)
        data = file.read(nbytes)
    if len(data) < nbytes:
        raise UsageError(f"{quoted(path)} has become shorter while the batch ran")
    return data
