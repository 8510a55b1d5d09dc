"""Parts of a batch: rows that are read, run and written together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

#: Default of the most rows of a part.
MOST_ROWS = 8192
#: Approximate size of the rows of a part in the input, in bytes.
MOST_NBYTES = 32 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Consecutive rows of the input; the unit of running, writing, retrying and resuming.

    Attributes:
        number: Number of the part, from 0.
        files: Files of its rows: one file, or a picture for each row.
        first_row: Number of its first row among all rows of the input.
        file_row: Number of its first row in its file.
        count: Number of rows, at least 1.
        offset: Offset in a text file, in bytes.
        nbytes: Length in a text file, in bytes.
        group: Parts of one file with the same group are read together, because a Parquet file's row
            group cannot be read from its middle. None if it is read by itself.
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
        """Name of its output without a suffix: "part-00007"."""
        return f"part-{self.number:05}"


def reading_groups(parts: Iterable[Part]) -> list[tuple[Part, ...]]:
    """Return the parts in order, grouped by what is read together."""
    keyed = groupby(
        parts, lambda part: (part.files[:1], part.number if part.group is None else -1, part.group)
    )
    return [tuple(group) for _, group in keyed]
