"""Rows of npy files: the first dimension of the array, as column ``data``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from ortpkg.foundations.arrays.array_files import verify_regular
from ortpkg.foundations.arrays.npy_header import read_npy_header, why_unreadable
from ortpkg.foundations.errors import UsageError, quoted
from ortpkg.scale.batches.parts import Part
from ortpkg.scale.batches.rows import Array, Rows
from ortpkg.scale.batches.text_spans import read_errors

#: Name of the only column, the array of the file.
DATA = "data"
#: Most rows without elements, which need no bytes in the file.
_MOST_EMPTY_ROWS = 1 << 20


def npy_size(path: Path) -> tuple[int, int]:
    """Return the number of rows of a file, and their size in bytes.

    Raises:
        UsageError: The file has no rows.
    """
    array = _mapped(path)
    return array.shape[0], array.nbytes


def read_npy_rows(part: Part) -> Rows:
    """Return the rows of a part."""
    array = _mapped(Path(part.files[0]))[part.file_row : part.file_row + part.count]
    if array.shape[0] != part.count:
        raise UsageError(f"{quoted(part.files[0])} has changed while the batch ran")
    row_ids = np.arange(part.first_row, part.first_row + part.count, dtype=np.int64)
    return Rows(row_ids=row_ids, columns={DATA: np.ascontiguousarray(array)})


def _mapped(path: Path) -> Array:
    """Return the array, mapped from the file."""
    with read_errors(path):
        verify_regular(path)
    try:
        with path.open("rb") as file:
            shape, is_fortran, dtype = read_npy_header(file, path.name)
            offset = file.tell()
        if dtype.hasobject:
            raise ValueError("it holds pickled Python objects, which are never loaded")
        if not shape:
            raise ValueError("it holds one number, which has no rows")
        if 0 in shape or not dtype.itemsize:  # texts without characters
            _verify_counts(shape, dtype)
            return np.zeros(shape, dtype)
        order = "F" if is_fortran else "C"
        return np.memmap(path, dtype, "r", offset, shape, order)  # type: ignore[call-overload, no-any-return]  # the type of order is a literal
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {quoted(path)}: {why_unreadable(error)}") from error


def _verify_counts(shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Raise ValueError for too many rows without bytes, since a header can state any number."""
    if shape[0] > _MOST_EMPTY_ROWS:
        raise ValueError(
            f"it states {shape[0]} rows without a single element; {_MOST_EMPTY_ROWS} may be"
        )
    if not dtype.itemsize and math.prod(shape) > _MOST_EMPTY_ROWS:
        raise ValueError(
            f"it states {math.prod(shape)} texts without a single character; {_MOST_EMPTY_ROWS}"
            " may be"
        )
