"""Decide which dimensions of a model's inputs and outputs are rows: first ones that are free."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ortpkg.foundations.documents.frozen import EMPTY
from ortpkg.foundations.errors import UsageError, quoted
from ortpkg.foundations.names import did_you_mean
from ortpkg.graph.declared_values import DeclaredValue, declared_element_type
from ortpkg.graph.types import numpy_dtype
from ortpkg.selection.measuring.row_axes import (
    RowAxis,
    declared_axis,
    is_free,
    repeats_rows,
    row_names,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputLayout:
    """Layout of one input: the rows that it takes.

    Attributes:
        name: Name of the input.
        dtype: Type of its elements; object for texts.
        row_shape: Shape of one row, with None for any size; None if even the rank is unknown.
        is_stacked: True if rows are stacked along a first dimension.
    """

    name: str
    dtype: npt.DTypeLike
    row_shape: tuple[int | None, ...] | None
    is_stacked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLayout:
    """Arrangement of rows in the inputs and outputs of a run.

    Attributes:
        inputs: Inputs of the model.
        outputs: Names of its outputs, in order.
        whole_outputs: Outputs whose first dimension is not rows. Such a model runs one row at a
            time, which gets the whole output.
        ragged_outputs: Those of them whose size may differ from row to row.
        fixed_rows: Number of rows of every run; None for any number.
        single_reason: Phrase why rows run one at a time, or "".
    """

    inputs: tuple[InputLayout, ...]
    outputs: tuple[str, ...]
    whole_outputs: frozenset[str]
    fixed_rows: int | None
    ragged_outputs: frozenset[str] = frozenset()
    single_reason: str = ""


#: True by output if its first dimension is rows, as far as the caller says.
StatedAxes = Mapping[str, bool]


def parse_axes(texts: Sequence[str]) -> dict[str, bool]:
    """Parse ``--batch-axis OUTPUT=0`` and ``OUTPUT=none``.

    Raises:
        UsageError: A text has another form.
    """
    has_rows: dict[str, bool] = {}
    for text in texts:
        name, _, axis = text.rpartition("=")
        if not name or axis not in {"0", "none"}:
            raise UsageError(
                f"--batch-axis {quoted(text)}: it takes OUTPUT=0 where the first dimension of the"
                " output is rows, or OUTPUT=none where it belongs to the row"
            )
        if name in has_rows:
            raise UsageError(f"--batch-axis: output {quoted(name)} is given twice")
        has_rows[name] = axis == "0"
    return has_rows


def model_layout(
    inputs: Sequence[DeclaredValue],
    outputs: Sequence[DeclaredValue],
    batch_size: int | None = None,
    *,
    axes: Mapping[str, RowAxis] = EMPTY,
    stated: StatedAxes = EMPTY,
) -> ModelLayout:
    """Decide which dimensions of ``inputs`` and ``outputs`` are rows.

    An input's first dimension is rows if it has no fixed size, size 1 (a run then takes one row),
    or, in a model where no input's first dimension has a name, size ``batch_size`` (a run then
    takes that many). A first dimension of another size, or an input without dimensions, belongs to
    the row, and a run takes one row. A run also takes one row if the first dimensions of inputs
    have different names, or if another dimension counts rows too.

    Args:
        inputs, outputs: As the model declares them.
        batch_size: Rows of one run, as the caller says.
        axes: Inferred meaning of each output's first dimension; names decide about others.
        stated: The caller's statement about outputs, which takes precedence.

    Raises:
        UsageError: A value is not a tensor, the first dimension of an output may be rows or not, or
            an output cannot be divided among a fixed number of rows.
    """
    _verify_stated(outputs, stated)
    _verify_tensors(outputs)
    names = row_names(declared for declared in inputs if is_free(declared))
    is_fixed = not names and any(_first(declared) == batch_size for declared in inputs)
    fixed_size = batch_size if is_fixed else None
    layouts = tuple(_input_layout(declared, fixed_size) for declared in inputs)
    meanings = {
        declared.name: _meaning(declared, fixed_size, names, axes, stated) for declared in outputs
    }
    unknown = [name for name, axis in meanings.items() if axis is RowAxis.UNKNOWN]
    if unknown:
        raise UsageError(_cannot_tell(unknown[0]))
    whole_outputs = [declared for declared in outputs if meanings[declared.name] is RowAxis.WHOLE]
    reason = _single_reason(inputs, layouts, meanings, names)
    if reason and fixed_size not in {None, 1}:
        raise UsageError(
            f"--batch-size {fixed_size}: the model takes {fixed_size} rows a run, but {reason};"
            " without --batch-size a row is all that a run takes"
        )
    return ModelLayout(
        inputs=layouts,
        outputs=tuple(output.name for output in outputs),
        whole_outputs=frozenset(output.name for output in whole_outputs),
        ragged_outputs=frozenset(output.name for output in whole_outputs if not _is_fixed(output)),
        fixed_rows=1 if reason else fixed_size,
        single_reason=reason,
    )


def _verify_stated(outputs: Sequence[DeclaredValue], stated_axes: StatedAxes) -> None:
    names = [declared.name for declared in outputs]
    for name in stated_axes:
        if name not in names:
            raise UsageError(
                f"--batch-axis: the model has no output {quoted(name)}{did_you_mean(name, names)}"
            )


def _verify_tensors(outputs: Sequence[DeclaredValue]) -> None:
    for declared in outputs:
        if declared_element_type(declared.type) is None:
            raise UsageError(
                f"output {quoted(declared.name)} is {quoted(declared.type)}: rows can have tensors"
                " alone"
            )


def _cannot_tell(name: str) -> str:
    return (
        f"neither the names of the model's dimensions nor its operators say whether the first"
        f" dimension of output {quoted(name)} is rows: --batch-axis {name}=0 says that it is,"
        f" --batch-axis {name}=none that all of the output belongs to the row"
    )


def _meaning(
    declared: DeclaredValue,
    stated_rows: int | None,
    names: Collection[str],
    axes: Mapping[str, RowAxis],
    stated_axes: StatedAxes,
) -> RowAxis:
    if declared.name in stated_axes:
        return RowAxis.ROWS if stated_axes[declared.name] else RowAxis.WHOLE
    if stated_rows is not None and _first(declared) == stated_rows:
        return RowAxis.ROWS
    return axes.get(declared.name) or declared_axis(declared, names)


def _single_reason(
    inputs: Sequence[DeclaredValue],
    layouts: Sequence[InputLayout],
    meanings: Mapping[str, RowAxis],
    names: Collection[str],
) -> str:
    """Return why a run takes only one row; "" if it takes more."""
    for declared, layout in zip(inputs, layouts, strict=True):
        if _first(declared) == 1:
            return f"input {quoted(declared.name)} takes one"
        if not layout.is_stacked:
            return f"input {quoted(declared.name)} has no dimension of rows"
        if repeats_rows(declared, names):
            return f"input {quoted(declared.name)} counts rows in another dimension, too"
    if len(names) > 1:
        listed = ", ".join(quoted(name) for name in sorted(names))
        return f"the first dimensions of its inputs have different names: {listed}"
    for name, axis in meanings.items():
        if axis is RowAxis.MIXED:
            return f"output {quoted(name)} counts rows in another dimension, too"
        if axis is not RowAxis.ROWS:
            return f"output {quoted(name)} has no dimension of rows"
    return ""


def _is_fixed(declared: DeclaredValue) -> bool:
    return declared.shape is not None and all(isinstance(size, int) for size in declared.shape)


def _input_layout(declared: DeclaredValue, fixed_rows: int | None) -> InputLayout:
    element_type = declared_element_type(declared.type)
    if element_type is None:
        raise UsageError(
            f"input {quoted(declared.name)} is {quoted(declared.type)}: rows can be tensors alone"
        )
    dtype: np.dtype[Any] = numpy_dtype(element_type)
    if declared.shape is None:
        return InputLayout(name=declared.name, dtype=dtype, row_shape=None, is_stacked=True)
    first = _first(declared)
    is_stacked = _is_rows(first, fixed_rows) or first == 1
    sizes = declared.shape[1:] if is_stacked else declared.shape
    row_shape = tuple(size if isinstance(size, int) else None for size in sizes)
    return InputLayout(name=declared.name, dtype=dtype, row_shape=row_shape, is_stacked=is_stacked)


def _first(declared: DeclaredValue) -> int | str | None:
    """Return the first dimension's size, or 0 if there is no dimension."""
    if declared.shape is None:
        return None
    return declared.shape[0] if declared.shape else 0


def _is_rows(size: int | str | None, fixed_rows: int | None) -> bool:
    return not isinstance(size, int) or (fixed_rows is not None and size == fixed_rows)
