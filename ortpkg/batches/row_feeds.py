"""Rows as feeds: batches of rows of one shape each, in an order that depends on the rows alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ortpkg.batches.column_mapping import ColumnMap
from ortpkg.batches.model_layout import InputLayout, ModelLayout
from ortpkg.batches.row_values import row_value, whole_column
from ortpkg.batches.rows import Array, Column, Rows
from ortpkg.batches.text_rows import MISSING

Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFeeds:
    """What the rows of a part feed.

    Attributes:
        layout: of the model.
        values: input → a value for each row, an array of all, or a list; None in a list where the
            row is refused.
        refused: place of a row → why it cannot be fed.
        batches: the places of the others, in batches of one shape.
    """

    layout: ModelLayout
    values: Mapping[str, Array | Sequence[Array | None]]
    refused: Mapping[int, str]
    batches: tuple[Places, ...]

    def feed(self, places: Places) -> dict[str, Array]:
        """What a run with the rows at these places takes; the last one again to fill it up."""
        fixed = self.layout.fixed_rows
        if fixed is not None and len(places) < fixed:
            places = np.concatenate([places, np.repeat(places[-1:], fixed - len(places))])
        return {each.name: self._value(each, places) for each in self.layout.inputs}

    def _value(self, layout: InputLayout, places: Places) -> Array:
        values = self.values[layout.name]
        if isinstance(values, np.ndarray):
            is_run = len(places) and places[-1] - places[0] == len(places) - 1
            rows = values[places[0] : places[-1] + 1] if is_run else values[places]
        else:
            rows = np.stack([values[each] for each in places])
        return rows if layout.is_stacked else rows[0]


def row_feeds(rows: Rows, layout: ModelLayout, columns: ColumnMap, batch_size: int) -> RowFeeds:
    """The rows of a part as what the model takes, ``batch_size`` at a time at most.

    Rows of different shapes are not run together.
    """
    refused: dict[int, str] = {}
    values: dict[str, Array | Sequence[Array | None]] = {}
    count = len(rows.row_ids)
    for each in layout.inputs:
        names = columns[each.name]
        found = whole_column(each, rows.columns[names[0]]) if _is_only(names, rows) else None
        values[each.name] = _single_values(each, names, rows, refused) if found is None else found
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
    found: list[Array | None] = []
    for place in range(count):
        try:
            found.append(row_value(layout, names, [column[place] for column in columns]))
        except ValueError as error:
            refused.setdefault(place, str(error))
            found.append(None)
    return found


def _batches(
    good: Places, values: Mapping[str, Array | Sequence[Array | None]], size: int
) -> Iterator[Places]:
    varying = [each for each in values.values() if not isinstance(each, np.ndarray)]
    groups: dict[tuple[tuple[int, ...], ...], list[int]] = {}
    for place in good.tolist() if varying else ():
        shapes = tuple(each[place].shape for each in varying)
        groups.setdefault(shapes, []).append(place)
    for group in groups.values() if varying else (good,):
        for first in range(0, len(group), size):
            yield np.asarray(group[first : first + size], np.int64)
