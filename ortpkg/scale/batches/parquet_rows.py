"""Rows of Parquet files, read with pyarrow; lists and tensors of one shape become one array."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ortpkg.foundations.arrays.array_files import verify_regular
from ortpkg.foundations.errors import MissingExtraError, UsageError, printable, quoted
from ortpkg.scale.batches.parts import Part
from ortpkg.scale.batches.rows import Array, Column, Rows
from ortpkg.scale.batches.text_spans import read_errors

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroup:
    """Number of rows of a row group, and their uncompressed size in bytes."""

    count: int
    nbytes: int


@contextmanager
def _opened(path: Path) -> Iterator[pq.ParquetFile]:
    """Open a file.

    Raises:
        UsageError: The file is damaged, or pyarrow is missing.
    """
    try:
        import pyarrow as pa  # an extra: only Parquet needs it
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError("Parquet", "pyarrow", error) from error
    with read_errors(path):
        verify_regular(path)
    try:
        with pq.ParquetFile(path) as file:
            yield file
    except (pa.ArrowException, OSError) as error:
        raise UsageError(f"cannot read {quoted(path)}: {printable(error)}") from error


def parquet_columns(path: Path) -> list[str]:
    """Return the names of a file's columns."""
    with _opened(path) as file:
        return list(file.schema_arrow.names)


def parquet_groups(path: Path) -> list[RowGroup]:
    """Return the row groups of a file."""
    with _opened(path) as file:
        groups = (file.metadata.row_group(index) for index in range(file.metadata.num_row_groups))
        return [RowGroup(count=group.num_rows, nbytes=group.total_byte_size) for group in groups]


def read_parquet_rows(parts: Sequence[Part], names: Sequence[str] | None) -> Iterator[Rows]:
    """Yield the rows of consecutive parts of one file, with these columns (None for all)."""
    path = Path(parts[0].files[0])
    with _opened(path) as file:
        begin, groups = _groups_with(file, parts)
        tables = _pieces(file, groups, begin, parts, names)
        for part, table in zip(parts, tables, strict=True):
            if table.num_rows != part.count:
                raise UsageError(f"{quoted(path)} has changed while the batch ran")
            first = part.first_row
            yield Rows(
                row_ids=np.arange(first, first + part.count, dtype=np.int64),
                columns={name: _column(table.column(name)) for name in table.column_names},
            )


def _groups_with(file: pq.ParquetFile, parts: Sequence[Part]) -> tuple[int, list[int]]:
    """Return the row groups with the parts, and the number of the first row in them."""
    first, last = parts[0].file_row, parts[-1].file_row + parts[-1].count
    begin = start = 0
    groups: list[int] = []
    for number in range(file.metadata.num_row_groups):
        count = file.metadata.row_group(number).num_rows
        if start + count > first and start < last:
            begin = begin if groups else start
            groups.append(number)
        start += count
    return begin, groups


def _pieces(
    file: pq.ParquetFile,
    groups: list[int],
    begin: int,
    parts: Sequence[Part],
    names: Sequence[str] | None,
) -> Iterator[pa.Table]:
    """Yield a table for each part from batches as they are read."""
    import pyarrow as pa  # as above

    columns = None if names is None else list(names)
    held: list[Any] = []
    batches = file.iter_batches(
        max(part.count for part in parts), row_groups=groups, columns=columns
    )
    end = begin
    for part in parts:
        last = part.file_row + part.count
        while end < last and (batch := next(batches, None)) is not None:
            held.append((end, batch))
            end += batch.num_rows
        held = [(start, piece) for start, piece in held if start + piece.num_rows > part.file_row]
        slices = [
            piece.slice(max(part.file_row - start, 0), last - max(part.file_row, start))
            for start, piece in held
        ]
        yield pa.Table.from_batches(slices)


def _column(chunked: Any) -> Column:
    """Return a column as an array if its values are numbers of one shape, else as a list."""
    array: Any = chunked.combine_chunks()
    array = array.chunk(0) if hasattr(array, "chunk") else array
    kind = array.type
    inner: tuple[int, ...] | None = None
    if hasattr(kind, "storage_type"):  # an extension type, such as a tensor
        inner = tuple(getattr(kind, "shape", ())) or None
        array = array.storage
    stacked: Array | None = _stacked(array)
    if stacked is None:
        return list(array.to_pylist())
    if inner is not None and stacked.size == len(stacked) * int(np.prod(inner)):
        return stacked.reshape(len(stacked), *inner)
    return stacked


def _stacked(array: Any) -> Any:
    """Return numbers, or lists of them of equal length, as one array; else None."""
    from pyarrow import types  # as above

    if array.null_count:
        return None
    kind = array.type
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind):
        return array.to_numpy(zero_copy_only=False)
    is_list = types.is_list(kind) or types.is_large_list(kind)
    if not (is_list or types.is_fixed_size_list(kind)) or len(array) == 0:
        return None
    values = array.flatten()
    length = len(values) // len(array)
    if is_list and (np.diff(array.offsets.to_numpy()) != length).any():
        return None
    within = _stacked(values)
    return None if within is None else within.reshape(len(array), length, *within.shape[1:])
