"""Parts as folders of npy files: numbers, or texts, or bytes, of one shape; nothing else."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from ortpkg.batches.rows import Array, Column
from ortpkg.errors import UsageError, quoted

#: What becomes one type of numpy's; dates and the like are texts, as in JSON.
_KINDS: tuple[tuple[tuple[type, ...], str], ...] = (
    ((bool, np.bool_), "truth values"),
    ((int, float, np.integer, np.floating), "numbers"),
    ((str, dt.date, dt.time, dt.timedelta, Decimal), "texts"),
    ((bytes,), "bytes"),
)


def write_npy(path: Path, columns: Mapping[str, Column]) -> None:
    """Writes a folder with a file for each column.

    UsageError for rows of different shapes or kinds, for what is nothing, and for columns that
    would be one file.
    """
    path.mkdir()
    names = {name: _file_name(name) for name in columns}
    _verify_apart(names)
    for name, column in columns.items():
        buffer = io.BytesIO()
        array = np.ascontiguousarray(_array(name, column))
        np.lib.format.write_array(buffer, array, allow_pickle=False)
        (path / f"{names[name]}.npy").write_bytes(buffer.getvalue())


def _verify_apart(names: Mapping[str, str]) -> None:
    first: dict[str, str] = {}
    for name, file in names.items():
        other = first.setdefault(file.casefold(), name)
        if other != name:
            raise UsageError(
                f"{quoted(other)} and {quoted(name)} would both be the file {quoted(file)}.npy:"
                " --format parquet or jsonl has both"
            )


def _file_name(name: str) -> str:
    """A column's name as that of a file, on every system."""
    kept = "".join(each if each.isalnum() or each in "-_." else "_" for each in name)
    return kept.lstrip(".") or "_"


def _array(name: str, column: Column) -> Array:
    if isinstance(column, np.ndarray) and column.dtype.kind != "O":
        return column
    try:
        if all(isinstance(each, np.ndarray) and each.dtype.kind != "O" for each in column):
            return np.stack(list(column))
        values = np.asarray(column, object)
    except ValueError as error:
        raise _refused(name, "rows of different shapes") from error
    found = values.ravel().tolist()
    kinds = dict.fromkeys(_kind(name, each) for each in found)
    if len(kinds) > 1:
        raise _refused(name, f"{' beside '.join(kinds)}")
    if "numbers" in kinds:
        return _numbers(name, values)
    if "texts" in kinds:
        found = [str(each) for each in found]
    if kinds.keys() & {"texts", "bytes"} and any(each[-1:] in {"\0", b"\0"} for each in found):
        raise _refused(name, "a text or bytes that end with NUL")
    return np.asarray(found).reshape(values.shape)


def _kind(name: str, value: Any) -> str:
    if value is None:
        raise _refused(name, "nothing in a row")
    if isinstance(value, list | np.ndarray):
        raise _refused(name, "rows of different shapes")
    for types, kind in _KINDS:
        if isinstance(value, types):
            return kind
    raise _refused(name, f"a {type(value).__name__}")


def _numbers(name: str, values: Array) -> Array:
    array = np.asarray(values.tolist())
    pairs = zip(array.ravel().tolist(), values.ravel().tolist(), strict=True)
    if array.dtype.kind == "O" or any(own != given and own == own for own, given in pairs):
        raise _refused(name, "whole numbers that are too large for its type")
    return array


def _refused(name: str, what: str) -> UsageError:
    return UsageError(
        f"output {quoted(name)} has {what}, which npy files do not hold: --format parquet or jsonl"
        " does"
    )
