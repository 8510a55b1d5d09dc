"""Rows from npy files: an array whose first dimension is rows, the column ``data``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from ortpkg.arrays.array_files import verify_regular
from ortpkg.arrays.npy_header import read_npy_header, why_unreadable
from ortpkg.batches.parts import Part
from ortpkg.batches.rows import Array, Rows
from ortpkg.batches.text_spans import read_errors
from ortpkg.errors import UsageError, quoted

#: The column that the array of an npy file is.
DATA = "data"
#: Rows without any element, which take no bytes in the file.
_MOST_EMPTY_ROWS = 1 << 20


def npy_size(path: Path) -> tuple[int, int]:
    """How many rows a file has, and their bytes. UsageError where it holds none."""
    array = _mapped(path)
    return array.shape[0], array.nbytes


def read_npy_rows(part: Part) -> Rows:
    """The rows of a part."""
    array = _mapped(Path(part.files[0]))[part.file_row : part.file_row + part.count]
    if array.shape[0] != part.count:
        raise UsageError(f"{quoted(part.files[0])} has changed while the batch ran")
    row_ids = np.arange(part.first_row, part.first_row + part.count, dtype=np.int64)
    return Rows(row_ids=row_ids, columns={DATA: np.ascontiguousarray(array)})


def _mapped(path: Path) -> Array:
    """The array as it lies in the file."""
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
        if 0 in shape or not dtype.itemsize:  # of texts without characters
            _verify_counts(shape, dtype)
            return np.zeros(shape, dtype)
        order = "F" if is_fortran else "C"
        return np.memmap(path, dtype, "r", offset, shape, order)  # type: ignore[call-overload, no-any-return]  # order is one of two letters
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {quoted(path)}: {why_unreadable(error)}") from error


def _verify_counts(shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Raise ValueError for too many rows without bytes: a header can state any number of them."""
    if shape[0] > _MOST_EMPTY_ROWS:
        raise ValueError(
            f"it states {shape[0]} rows without a single element; {_MOST_EMPTY_ROWS} may be"
        )
    if not dtype.itemsize and math.prod(shape) > _MOST_EMPTY_ROWS:
        raise ValueError(
            f"it states {math.prod(shape)} texts without a single character; {_MOST_EMPTY_ROWS}"
            " may be"
        )
