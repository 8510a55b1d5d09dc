"""What moves through a batch: rows in columns, and the rows that are none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
#: One value for each row: an array whose first dimension is rows, or a list of whatever was read.
Column = Array | list[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowError:
    """A row that cannot be read or run.

    Attributes:
        row_id: its number among all rows of the input.
        file: where it stands.
        file_row: its number in that file.
        reason: why, as a phrase.
    """

    row_id: int
    file: str
    file_row: int
    reason: str

    @property
    def where(self) -> str:
        """The row's place for messages: "row 7 of rows.csv", counted from 0."""
        return f"row {self.file_row} of {self.file}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The rows of one part: those that could be read, and what is wrong with the others.

    Attributes:
        row_ids: of those that could be read, ascending.
        columns: name → a value for each of them.
        errors: the others.
    """

    row_ids: npt.NDArray[np.int64]
    columns: Mapping[str, Column]
    errors: tuple[RowError, ...] = ()


def taken(column: Column, places: npt.NDArray[np.int64]) -> Column:
    """The values of a column at these places."""
    return column[places] if isinstance(column, np.ndarray) else [column[each] for each in places]
