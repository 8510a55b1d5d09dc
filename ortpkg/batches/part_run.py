"""Runs the rows of one part: batch by batch, and row by row where a batch fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ortpkg.batches.column_mapping import ColumnMap
from ortpkg.batches.model_layout import ModelLayout
from ortpkg.batches.parts import Part
from ortpkg.batches.row_feeds import Places, RowFeeds, row_feeds
from ortpkg.batches.rows import Column, RowError, Rows, taken
from ortpkg.batches.text_rows import MISSING
from ortpkg.errors import InvalidFeedError, LimitExceededError, RowFailedError, RunError, quoted
from ortpkg.session.options import RunOptions

#: What may be the fault of a row; anything else is the variant's, or the machine's.
ROW_ERRORS = (InvalidFeedError, RunError, LimitExceededError)


class Session(Protocol):
    """What a part needs of a session."""

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: Any = None,
        /,
    ) -> Sequence[Any]:
        """As :meth:`ortpkg.InferenceSession.run`."""


#: Runs a feed, for outputs of these names.
Run = Callable[[Sequence[str], Mapping[str, Any]], Sequence[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """How rows are run.

    Attributes:
        layout: of the model.
        columns: which feed which input.
        batch_size: rows of one run, at most.
        kept: columns of the input that the output has, too.
        stops: whether the first row that fails ends everything.
    """

    layout: ModelLayout
    columns: ColumnMap
    batch_size: int
    kept: tuple[str, ...] = ()
    stops: bool = True


def run_part(
    session: Session, part: Part, rows: Rows, plan: RunPlan, limits: RunOptions | None = None
) -> Rows:
    """The outputs of the rows of a part, as columns, and what is wrong with its other rows.

    ``limits`` hold for each run by itself.

    Raises RowFailedError for the first row that cannot be read or run, where the plan says so.
    """
    _stop_at(rows.errors, plan)

    def run(names: Sequence[str], feed: Mapping[str, Any]) -> Sequence[Any]:
        return session.run(names, feed, limits)

    feeds = row_feeds(rows, plan.layout, plan.columns, plan.batch_size)
    errors = {
        position: _error(part, rows, position, reason) for position, reason in feeds.refused.items()
    }
    _stop_at([errors[position] for position in sorted(errors)], plan)
    results: list[tuple[Places, dict[str, Column]]] = []
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
        name: taken(
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
    kept_columns = {name: taken(_kept(rows, name), positions) for name in plan.kept}
    by_row = sorted([*rows.errors, *errors.values()], key=lambda error: error.row_id)
    return Rows(
        row_ids=rows.row_ids[positions], columns={**kept_columns, **columns}, errors=tuple(by_row)
    )


def _kept(rows: Rows, name: str) -> Column:
    """A column of the input, with nothing where a row has none."""
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


def _error(part: Part, rows: Rows, place: int, reason: str) -> RowError:
    row_id = int(rows.row_ids[place])
    within = row_id - part.first_row
    file = part.files[within] if len(part.files) > 1 else part.files[0]
    file_row = 0 if len(part.files) > 1 else part.file_row + within
    return RowError(row_id=row_id, file=file, file_row=file_row, reason=reason)


def _run(
    run: Run, feeds: RowFeeds, batch: Places
) -> list[tuple[Places, dict[str, Column] | Exception]]:
    """The outputs of a batch; of halves of it where it fails, down to single rows."""
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


def _outputs(run: Run, feeds: RowFeeds, batch: Places) -> dict[str, Column]:
    layout = feeds.layout
    values = run(list(layout.outputs), feeds.feed(batch))
    found: dict[str, Column] = {}
    for name, value in zip(layout.outputs, values, strict=True):
        if not isinstance(value, np.ndarray):
            raise RunError(f"output {quoted(name)} is no tensor: rows can have tensors alone")
        if name in layout.whole_outputs:
            found[name] = [value]
            continue
        expected = len(batch) if layout.fixed_rows is None else layout.fixed_rows
        if value.ndim == 0 or value.shape[0] != expected:
            raise RunError(
                f"output {quoted(name)} has the shape {list(value.shape)} for {expected} rows:"
                " its first dimension is no rows"
            )
        found[name] = value[: len(batch)]
    return found


def _joined(columns: Sequence[Column], *, is_ragged: bool) -> Column:
    """Columns one after the other: an array where all rows have one shape.

    Rows that may have different shapes stay a list, so that every part of a batch has one type.
    """
    if is_ragged:
        return [np.asarray(row) for column in columns for row in column]
    if len(columns) == 1 and isinstance(columns[0], np.ndarray):
        return columns[0]
    shapes = {np.shape(row) for column in columns for row in _first_rows(column)}
    if len(shapes) == 1:
        arrays = [each if isinstance(each, np.ndarray) else np.stack(each) for each in columns]
        return np.concatenate(arrays)
    return [np.asarray(row) for column in columns for row in column]


def _first_rows(column: Column) -> Iterable[Any]:
    """Rows that have every shape that there is: all rows of an array have one."""
    return column[:1] if isinstance(column, np.ndarray) else column
