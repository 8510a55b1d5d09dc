"""Rows of a batch as columns, and errors of rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
#: One value for each row: an array whose first dimension is rows, or a list of values as read.
Column = Array | list[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowError:
    """Row that cannot be read or run.

    Attributes:
        row_id: Number of the row among all rows of the input.
        file: Its file.
        file_row: Its number in that file.
        reason: Phrase why it failed.
    """

    row_id: int
    file: str
    file_row: int
    reason: str

    @property
    def where(self) -> str:
        """Position for messages: "row 7 of rows.csv", counted from 0."""
        return f"row {self.file_row} of {self.file}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Rows of one part that could be read, and the errors of the others.

    Attributes:
        row_ids: Numbers of the rows that could be read, ascending.
        columns: A value for each of them, by column name.
        errors: Errors of the other rows.
    """

    row_ids: npt.NDArray[np.int64]
    columns: Mapping[str, Column]
    errors: tuple[RowError, ...] = ()


def take_rows(column: Column, positions: npt.NDArray[np.int64]) -> Column:
    """Return the values of a column at these positions."""
    return (
        column[positions]
        if isinstance(column, np.ndarray)
        else [column[position] for position in positions]
    )
