"""Runs the rows of one part: batch by batch, and row by row where a batch fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ortpkg.foundations.errors import (
    InvalidFeedError,
    LimitExceededError,
    RowFailedError,
    RunError,
    quoted,
)
from ortpkg.runtime.session.options import RunOptions
from ortpkg.scale.batches.column_mapping import ColumnMap
from ortpkg.scale.batches.model_layout import ModelLayout
from ortpkg.scale.batches.parts import Part
from ortpkg.scale.batches.row_feeds import Positions, RowFeeds, row_feeds
from ortpkg.scale.batches.rows import Column, RowError, Rows, take_rows
from ortpkg.scale.batches.text_rows import MISSING

#: Errors that a row may cause; others are caused by the variant or the machine.
ROW_ERRORS = (InvalidFeedError, RunError, LimitExceededError)


class Session(Protocol):
    """Part of a session's interface that running a part needs."""

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: Any = None,
        /,
    ) -> Sequence[Any]:
        """Run the model; see :meth:`ortpkg.InferenceSession.run`."""


#: Runs a feed and returns the outputs of these names.
Run = Callable[[Sequence[str], Mapping[str, Any]], Sequence[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """Options for running rows.

    Attributes:
        layout: Layout of the model.
        columns: Columns of each input.
        batch_size: Most rows of one run.
        kept_columns: Columns of the input to copy to the output.
        stops: True if the first failed row ends everything.
    """

    layout: ModelLayout
    columns: ColumnMap
    batch_size: int
    kept_columns: tuple[str, ...] = ()
    stops: bool = True


def run_part(
    session: Session, part: Part, rows: Rows, plan: RunPlan, limits: RunOptions | None = None
) -> Rows:
    """Return the outputs of a part's rows as columns, and the errors of the other rows.

    ``limits`` apply to each run by itself.

    Raises:
        RowFailedError: A row cannot be read or run, and the plan stops at the first.
    """
    _stop_at(rows.errors, plan)

    def run(names: Sequence[str], feed: Mapping[str, Any]) -> Sequence[Any]:
        return session.run(names, feed, limits)

    feeds = row_feeds(rows, plan.layout, plan.columns, plan.batch_size)
    errors = {
        position: _error(part, rows, position, reason) for position, reason in feeds.refused.items()
    }
    _stop_at([errors[position] for position in sorted(errors)], plan)
    results: list[tuple[Positions, dict[str, Column]]] = []
    for batch in feeds.batches:
        for positions, outputs in _run(run, feeds, batch):
            if isinstance(outputs, Exception):
                errors[int(positions[0])] = _error(part, rows, int(positions[0]), str(outputs))
                _stop_at([errors[int(positions[0])]], plan)
            else:
                results.append((positions, outputs))
    order = (
        np.concatenate([positions for positions, _ in results])
        if results
        else np.zeros(0, np.int64)
    )
    ranks = np.argsort(order, kind="stable")
    columns = {
        name: take_rows(
            _joined(
                [outputs[name] for _, outputs in results],
                is_ragged=name in plan.layout.ragged_outputs,
            ),
            ranks,
        )
        for name in plan.layout.outputs
        if results
    }
    positions = order[ranks]
    kept_columns = {name: take_rows(_kept(rows, name), positions) for name in plan.kept_columns}
    by_row = sorted([*rows.errors, *errors.values()], key=lambda error: error.row_id)
    return Rows(
        row_ids=rows.row_ids[positions], columns={**kept_columns, **columns}, errors=tuple(by_row)
    )


def _kept(rows: Rows, name: str) -> Column:
    """Return a column of the input, with None for missing values."""
    column = rows.columns.get(name, [MISSING] * len(rows.row_ids))
    if isinstance(column, np.ndarray):
        return column
    return [None if value is MISSING else value for value in column]


def _stop_at(errors: Sequence[RowError], plan: RunPlan) -> None:
    if errors and plan.stops:
        first = errors[0]
        raise RowFailedError(
            f"{first.where}: {first.reason}; --errors FILE leaves such rows out and lists them",
            row_id=first.row_id,
            file=first.file,
        )


def _error(part: Part, rows: Rows, position: int, reason: str) -> RowError:
    row_id = int(rows.row_ids[position])
    within = row_id - part.first_row
    file = part.files[within] if len(part.files) > 1 else part.files[0]
    file_row = 0 if len(part.files) > 1 else part.file_row + within
    return RowError(row_id=row_id, file=file, file_row=file_row, reason=reason)


def _run(
    run: Run, feeds: RowFeeds, batch: Positions
) -> list[tuple[Positions, dict[str, Column] | Exception]]:
    """Return the outputs of a batch; if it fails, run its halves, down to single rows."""
    try:
        return [(batch, _outputs(run, feeds, batch))]
    except ROW_ERRORS as error:
        if len(batch) == 1:
            return [(batch, error)]
        middle = len(batch) // 2
        return [
            *_run(run, feeds, batch[:middle]),
            *_run(run, feeds, batch[middle:]),
        ]


def _outputs(run: Run, feeds: RowFeeds, batch: Positions) -> dict[str, Column]:
    layout = feeds.layout
    values = run(list(layout.outputs), feeds.feed(batch))
    outputs: dict[str, Column] = {}
    for name, value in zip(layout.outputs, values, strict=True):
        if not isinstance(value, np.ndarray):
            raise RunError(f"output {quoted(name)} is no tensor: rows can have tensors alone")
        if name in layout.whole_outputs:
            outputs[name] = [value]
            continue
        expected = len(batch) if layout.fixed_rows is None else layout.fixed_rows
        if value.ndim == 0 or value.shape[0] != expected:
            raise RunError(
                f"output {quoted(name)} has the shape {list(value.shape)} for {expected} rows:"
                " its first dimension is no rows"
            )
        outputs[name] = value[: len(batch)]
    return outputs


def _joined(columns: Sequence[Column], *, is_ragged: bool) -> Column:
    """Concatenate columns, to an array if all rows have one shape.

    Rows that may have different shapes stay a list, so that every part of a batch has the same
    type.
    """
    if is_ragged:
        return [np.asarray(row) for column in columns for row in column]
    if len(columns) == 1 and isinstance(columns[0], np.ndarray):
        return columns[0]
    shapes = {np.shape(row) for column in columns for row in _first_rows(column)}
    if len(shapes) == 1:
        arrays = [
            column if isinstance(column, np.ndarray) else np.stack(column) for column in columns
        ]
        return np.concatenate(arrays)
    return [np.asarray(row) for column in columns for row in column]


def _first_rows(column: Column) -> Iterable[Any]:
    """Return rows with all shapes that occur; all rows of an array have the same."""
    return column[:1] if isinstance(column, np.ndarray) else column
