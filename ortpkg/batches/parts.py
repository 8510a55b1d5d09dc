"""A part of a batch: which rows are read, run and written together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

#: Rows that one part has at most, unless the caller says otherwise.
MOST_ROWS = 8192
#: Bytes that the rows of one part have in the input, about.
MOST_NBYTES = 32 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Consecutive rows of the input; the unit of what is run, written, retried and resumed.

    Attributes:
        number: which, from 0.
        files: where its rows are: one file, or a picture for each row.
        first_row: the number of its first row among all rows of the input.
        file_row: the same in its file.
        count: how many rows, at least 1.
        offset: where it begins in a text file, in bytes.
        nbytes: how long it is there.
        group: parts of one file that have the same are read in one go: a Parquet file's row group
            cannot be read from its middle. None: it is read by itself.
    """

    number: int
    files: tuple[str, ...]
    first_row: int
    file_row: int
    count: int
    offset: int = 0
    nbytes: int = 0
    group: int | None = None

    @property
    def name(self) -> str:
        """What its output is called, without an ending: "part-00007"."""
        return f"part-{self.number:05}"


def readings(parts: Iterable[Part]) -> list[tuple[Part, ...]]:
    """The parts by what is read in one go, in order."""
    keyed = groupby(
        parts, lambda part: (part.files[:1], part.number if part.group is None else -1, part.group)
    )
    return [tuple(group) for _, group in keyed]
