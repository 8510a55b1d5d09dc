"""Feeds from rows: batches of rows of one shape each, in an order that depends only on the rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ortpkg.scale.batches.column_mapping import ColumnMap
from ortpkg.scale.batches.model_layout import InputLayout, ModelLayout
from ortpkg.scale.batches.row_values import row_value, whole_column
from ortpkg.scale.batches.rows import Array, Column, Rows
from ortpkg.scale.batches.text_rows import MISSING

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFeeds:
    """Values that the rows of a part feed.

    Attributes:
        layout: Layout of the model.
        values: Value for each row by input, as one array or a list; None in a list for a refused
            row.
        refused: Reason by position of a row that cannot be fed.
        batches: Positions of the other rows, in batches of one shape.
    """

    layout: ModelLayout
    values: Mapping[str, Array | Sequence[Array | None]]
    refused: Mapping[int, str]
    batches: tuple[Positions, ...]

    def feed(self, positions: Positions) -> dict[str, Array]:
        """Return the feed of a run with the rows at these positions.

        The last is repeated to fill it.
        """
        fixed = self.layout.fixed_rows
        if fixed is not None and len(positions) < fixed:
            positions = np.concatenate(
                [positions, np.repeat(positions[-1:], fixed - len(positions))]
            )
        return {
            input_layout.name: self._value(input_layout, positions)
            for input_layout in self.layout.inputs
        }

    def _value(self, layout: InputLayout, positions: Positions) -> Array:
        values = self.values[layout.name]
        if isinstance(values, np.ndarray):
            is_run = len(positions) and positions[-1] - positions[0] == len(positions) - 1
            rows = values[positions[0] : positions[-1] + 1] if is_run else values[positions]
        else:
            rows = np.stack([values[position] for position in positions])
        return rows if layout.is_stacked else rows[0]


def row_feeds(rows: Rows, layout: ModelLayout, columns: ColumnMap, batch_size: int) -> RowFeeds:
    """Return the rows of a part as feeds of at most ``batch_size`` rows.

    Rows of different shapes are not run together.
    """
    refused: dict[int, str] = {}
    values: dict[str, Array | Sequence[Array | None]] = {}
    count = len(rows.row_ids)
    for input_layout in layout.inputs:
        names = columns[input_layout.name]
        column_values = (
            whole_column(input_layout, rows.columns[names[0]]) if _is_only(names, rows) else None
        )
        values[input_layout.name] = (
            _single_values(input_layout, names, rows, refused)
            if column_values is None
            else column_values
        )
    size = batch_size if layout.fixed_rows is None else layout.fixed_rows
    good = np.delete(np.arange(count, dtype=np.int64), list(refused))
    return RowFeeds(
        layout=layout,
        values=values,
        refused=refused,
        batches=tuple(_batches(good, values, size)),
    )


def _is_only(names: Sequence[str], rows: Rows) -> bool:
    return len(names) == 1 and names[0] in rows.columns


def _single_values(
    layout: InputLayout, names: Sequence[str], rows: Rows, refused: dict[int, str]
) -> list[Array | None]:
    count = len(rows.row_ids)
    columns: list[Column] = [rows.columns.get(name, [MISSING] * count) for name in names]
    row_values: list[Array | None] = []
    for position in range(count):
        try:
            row_values.append(row_value(layout, names, [column[position] for column in columns]))
        except ValueError as error:
            refused.setdefault(position, str(error))
            row_values.append(None)
    return row_values


def _batches(
    good: Positions, values: Mapping[str, Array | Sequence[Array | None]], size: int
) -> Iterator[Positions]:
    varying = [column for column in values.values() if not isinstance(column, np.ndarray)]
    groups: dict[tuple[tuple[int, ...], ...], list[int]] = {}
    for position in good.tolist() if varying else ():
        shapes = tuple(column[position].shape for column in varying)
        groups.setdefault(shapes, []).append(position)
    for group in groups.values() if varying else (good,):
        for first in range(0, len(group), size):
            yield np.asarray(group[first : first + size], np.int64)
