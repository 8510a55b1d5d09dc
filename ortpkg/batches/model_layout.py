"""Decides which dimensions of a model's inputs and outputs are rows: first ones that are free."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ortpkg.documents.frozen import EMPTY
from ortpkg.errors import UsageError, quoted
from ortpkg.graph.declared_values import DeclaredValue, declared_element_type
from ortpkg.graph.types import numpy_dtype
from ortpkg.measuring.row_axes import RowAxis, declared_axis, is_free, repeats_rows, row_names
from ortpkg.names import did_you_mean


@dataclass(frozen=True, slots=True, kw_only=True)
class InputLayout:
    """How rows become one input.

    Attributes:
        name: of the input.
        dtype: of its elements; object for texts.
        row_shape: what one row has: a number, or None where any will do; None as a whole where even
            the rank is unknown.
        is_stacked: whether rows lie one after the other along a first dimension.
    """

    name: str
    dtype: npt.DTypeLike
    row_shape: tuple[int | None, ...] | None
    is_stacked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLayout:
    """Arrangement of rows in the inputs and outputs of a run.

    Attributes:
        inputs: of the model.
        outputs: names of its outputs, in order.
        whole_outputs: those whose first dimension is no rows: such a model runs a row at a time,
            which gets all of them.
        ragged_outputs: those of them whose size may differ from row to row.
        fixed_rows: how many rows every run takes; None: any number.
        single_reason: why rows run one at a time, as a phrase; "" where they do not.
    """

    inputs: tuple[InputLayout, ...]
    outputs: tuple[str, ...]
    whole_outputs: frozenset[str]
    fixed_rows: int | None
    ragged_outputs: frozenset[str] = frozenset()
    single_reason: str = ""


#: Output → whether its first dimension is rows, where the caller says so.
StatedAxes = Mapping[str, bool]


def parse_axes(texts: Sequence[str]) -> dict[str, bool]:
    """Read ``--batch-axis OUTPUT=0`` and ``OUTPUT=none``. UsageError for anything else."""
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
        inputs, outputs: as the model declares them.
        batch_size: rows of one run, as the caller says.
        axes: output → what inference says of its first dimension; what is left out goes by names.
        stated: output → what the caller says of it, which counts more.

    Raises UsageError for values that are no tensors, for an output whose first dimension cannot be
    told to be rows or not, and for one that cannot be divided among the rows of a fixed size.
    """
    _verify_stated(outputs, stated)
    _verify_tensors(outputs)
    names = row_names(declared for declared in inputs if is_free(declared))
    is_fixed = not names and any(_first(declared) == batch_size for declared in inputs)
    own = batch_size if is_fixed else None
    layouts = tuple(_input_layout(declared, own) for declared in inputs)
    meanings = {declared.name: _meaning(declared, own, names, axes, stated) for declared in outputs}
    unknown = [name for name, axis in meanings.items() if axis is RowAxis.UNKNOWN]
    if unknown:
        raise UsageError(_cannot_tell(unknown[0]))
    whole_outputs = [declared for declared in outputs if meanings[declared.name] is RowAxis.WHOLE]
    reason = _single_reason(inputs, layouts, meanings, names)
    if reason and own not in {None, 1}:
        raise UsageError(
            f"--batch-size {own}: the model takes {own} rows a run, but {reason}; without"
            " --batch-size a row is all that a run takes"
        )
    return ModelLayout(
        inputs=layouts,
        outputs=tuple(output.name for output in outputs),
        whole_outputs=frozenset(output.name for output in whole_outputs),
        ragged_outputs=frozenset(output.name for output in whole_outputs if not _is_fixed(output)),
        fixed_rows=1 if reason else own,
        single_reason=reason,
    )


def _verify_stated(outputs: Sequence[DeclaredValue], stated: StatedAxes) -> None:
    names = [declared.name for declared in outputs]
    for name in stated:
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
    stated: StatedAxes,
) -> RowAxis:
    if declared.name in stated:
        return RowAxis.ROWS if stated[declared.name] else RowAxis.WHOLE
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
    """The first dimension's size; 0 where there is no dimension."""
    if declared.shape is None:
        return None
    return declared.shape[0] if declared.shape else 0


def _is_rows(size: int | str | None, fixed_rows: int | None) -> bool:
    return not isinstance(size, int) or (fixed_rows is not None and size == fixed_rows)
