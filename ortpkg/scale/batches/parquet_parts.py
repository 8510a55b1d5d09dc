"""Parts as Parquet files; rows of more than one dimension are Arrow's tensor type."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ortpkg.foundations.errors import MissingExtraError, UsageError, quoted
from ortpkg.scale.batches.rows import Column


def write_parquet(path: Path, columns: Mapping[str, Column]) -> None:
    """Write columns to one file.

    Raises:
        UsageError: pyarrow is missing, or Arrow cannot hold a column.
    """
    try:
        import pyarrow as pa  # an extra: only Parquet needs it
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError("Parquet", "pyarrow", error) from error
    arrays = []
    for name, column in columns.items():
        try:
            arrays.append(_arrow(column, pa))
        except (pa.ArrowException, OverflowError, UnicodeEncodeError) as error:
            raise UsageError(
                f"output {quoted(name)} cannot be written as Parquet: {error}"
            ) from error
    pq.write_table(pa.Table.from_arrays(arrays, names=list(columns)), path)


def _arrow(column: Column, pa: Any) -> Any:
    if not isinstance(column, np.ndarray):
        return pa.array([_plain(row) for row in column], _type_of_lists(column, pa))
    if column.ndim == 1:
        return pa.array(column)
    flat = pa.array(np.ascontiguousarray(column).reshape(-1))
    lists = pa.FixedSizeListArray.from_arrays(flat, int(np.prod(column.shape[1:])))
    if column.ndim == 2:
        return lists
    kind = pa.fixed_shape_tensor(flat.type, column.shape[1:])
    return pa.ExtensionArray.from_storage(kind, lists)


def _type_of_lists(column: list[Any], pa: Any) -> Any:
    """Return the type of rows that are arrays of one rank, whether they have elements or not."""
    kinds = {(row.dtype, row.ndim) if isinstance(row, np.ndarray) else None for row in column}
    if len(kinds) != 1 or None in kinds:
        return None
    ((dtype, rank),) = [kind for kind in kinds if kind is not None]
    list_type = pa.string() if dtype.kind in "OU" else pa.from_numpy_dtype(dtype)
    for _ in range(rank):
        list_type = pa.list_(list_type)
    return list_type


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value
