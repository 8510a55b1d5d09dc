"""What of a model's inputs and outputs is rows: their first dimension, where it is not fixed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ortpkg.errors import UsageError, quoted
from ortpkg.graph.declared_values import DeclaredValue, declared_element_type
from ortpkg.graph.types import numpy_dtype


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
    """How rows become a run.

    Attributes:
        inputs: of the model.
        outputs: names of its outputs, in order.
        whole_outputs: those whose first dimension is no rows: such a model runs a row at a time,
            which gets all of them.
        fixed_rows: how many rows every run takes; None: any number.
    """

    inputs: tuple[InputLayout, ...]
    outputs: tuple[str, ...]
    whole_outputs: frozenset[str]
    fixed_rows: int | None


def model_layout(
    inputs: Sequence[DeclaredValue], outputs: Sequence[DeclaredValue], batch_size: int | None = None
) -> ModelLayout:
    """What of ``inputs`` and ``outputs`` is rows.

    A first dimension without a fixed size is. One of size 1 is, too, and a run takes one row; so is
    one of just ``batch_size``, and a run takes so many. Any other size belongs to the row, and so
    does the whole of an input without dimensions; then a run takes one row.

    Raises UsageError for what is no tensor.
    """
    fixed = {
        declared.shape[0]
        for declared in inputs
        if declared.shape and declared.shape[0] == batch_size and isinstance(batch_size, int)
    }
    own = batch_size if fixed else None
    found = tuple(_input_layout(declared, own) for declared in inputs)
    sizes = [_first(declared) for declared in inputs]
    takes_one = 1 in sizes or not all(each.is_stacked for each in found)
    whole = frozenset(
        declared.name
        for declared in outputs
        if not _is_rows(_first(declared), own) and not (own is None and _first(declared) == 1)
    )
    fixed_rows = 1 if takes_one or whole else own
    return ModelLayout(
        inputs=found,
        outputs=tuple(each.name for each in outputs),
        whole_outputs=whole,
        fixed_rows=fixed_rows,
    )


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
