"""Conversion of column values to what inputs take: one array for all rows, or one for each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ortpkg.foundations.errors import quoted
from ortpkg.scale.batches.model_layout import InputLayout
from ortpkg.scale.batches.rows import Array, Column
from ortpkg.scale.batches.text_rows import MISSING, parse_float, parse_json

_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_MOST_SHOWN = 40


def whole_column(layout: InputLayout, column: Column) -> Array | None:
    """Return the values of all rows as one array, or None if rows must be converted one by one."""
    dtype = np.dtype(layout.dtype)
    numbers = None if dtype.kind == "O" else _numbers(column)
    if numbers is None:
        return None
    shape = _fitted(numbers.shape[1:], layout.row_shape)
    if shape is None or not _is_exact(numbers, dtype):
        return None
    try:
        return np.ascontiguousarray(_cast(numbers, dtype).reshape(len(numbers), *shape))
    except FloatingPointError:
        return None


def _numbers(column: Column) -> Array | None:
    """Return a column of numbers, or of arrays of one shape and type (as Ray Data has lists)."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "fiub":
        return column
    first = column[0] if len(column) else None
    if not isinstance(first, np.ndarray) or first.dtype.kind not in "fiub" or not first.ndim:
        return None
    rows = list(column)
    if {type(row) for row in rows} != {np.ndarray}:
        return None
    if len({row.shape for row in rows}) > 1 or len({row.dtype for row in rows}) > 1:
        return None
    return np.concatenate(rows).reshape(len(rows), *first.shape)


def row_value(layout: InputLayout, names: Sequence[str], values: Sequence[Any]) -> Array:
    """Return the value that one row feeds.

    Args:
        layout: Layout of the input.
        names: Names of the columns that feed it.
        values: The row's values in these columns.

    Raises:
        ValueError: The values do not fit; the message says why.
    """
    dtype = np.dtype(layout.dtype)
    plain = [_plain(name, value, dtype) for name, value in zip(names, values, strict=True)]
    value = plain[0] if len(plain) == 1 else plain
    name = ", ".join(quoted(item) for item in names)
    try:
        array = np.asarray(value, dtype if dtype.kind == "O" else None)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{name} has lists of different lengths: {error}") from error
    if dtype.kind == "O":
        if not all(isinstance(item, str) for item in array.ravel()):
            raise ValueError(f"{name} is no text")
    elif array.dtype.kind not in "fiub":
        if array.size:
            raise ValueError(f"{name} is {_shown(value)}, which is no number")
        array = array.astype(dtype)
    elif not _is_exact(array, dtype):
        raise ValueError(f"{name} is {_shown(value)}, which is no {dtype}")
    shape = _fitted(array.shape, layout.row_shape)
    if shape is None:
        assert layout.row_shape is not None
        wanted = "x".join("?" if size is None else str(size) for size in layout.row_shape)
        has = "x".join(map(str, array.shape)) or "one value"
        raise ValueError(f"{name} has {has}; the input takes {wanted or 'one value'}")
    try:
        return np.ascontiguousarray(_cast(array, dtype)).reshape(shape)
    except FloatingPointError:
        raise ValueError(f"{name} is {_shown(value)}, which is too large for {dtype}") from None


def _cast(array: Array, dtype: np.dtype[Any]) -> Array:
    """Convert numbers to a type that can hold them.

    Raises:
        FloatingPointError: A number would become infinite.
    """
    with np.errstate(over="raise"):
        return array.astype(dtype, copy=False)


def _plain(name: str, value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a value; a text of a number becomes the number."""
    if value is MISSING:
        raise ValueError(f"there is no {quoted(name)}")
    if value is None:
        raise ValueError(f"{quoted(name)} is empty")
    if not isinstance(value, str) or dtype.kind == "O":
        return value
    text = value.strip()
    if not text:
        raise ValueError(f"{quoted(name)} is empty")
    try:
        if text.startswith("["):
            return parse_json(text)
        if dtype.kind == "b":
            return _BOOLEANS[text.lower()]
        return int(text) if dtype.kind in "iu" else parse_float(text)
    except (ValueError, KeyError, RecursionError):
        raise ValueError(f"{quoted(name)} is {_shown(value)}, which is no {dtype}") from None


def _is_exact(array: Array, dtype: np.dtype[Any]) -> bool:
    """Return True if ``dtype`` can hold these numbers; only fractions may be rounded."""
    if array.dtype == dtype or not array.size:
        return True
    if dtype.kind not in "iu":
        return dtype.kind != "b"
    if array.dtype.kind == "f" and not (
        np.isfinite(array).all() and (array == np.rint(array)).all()
    ):
        return False
    least, greatest = np.iinfo(dtype).min, np.iinfo(dtype).max
    return bool(int(array.min()) >= least and int(array.max()) <= greatest)


def _fitted(
    shape: tuple[int, ...], wanted: tuple[int | None, ...] | None
) -> tuple[int, ...] | None:
    """Return the shape that a row of ``shape`` gets, or None if it does not fit.

    Numbers in a flat list, or with dimensions of size 1, take the shape of the input if that is
    known.
    """
    if wanted is None:
        return shape
    if len(shape) == len(wanted) and all(
        size is None or size == actual for size, actual in zip(wanted, shape, strict=True)
    ):
        return shape
    unknown = wanted.count(None)
    count = math.prod(shape)
    is_flat = sum(size != 1 for size in shape) <= 1 or len(shape) != len(wanted)
    if unknown == 0 and is_flat and count == math.prod(size for size in wanted if size is not None):
        return tuple(size for size in wanted if size is not None)
    if unknown == 1 and len(shape) <= 1:
        known_count = math.prod(size for size in wanted if size is not None)
        if known_count and count % known_count == 0:
            return tuple(count // known_count if size is None else size for size in wanted)
    return None


def _shown(value: Any) -> str:
    text = quoted(value if isinstance(value, str) else repr(value))
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
