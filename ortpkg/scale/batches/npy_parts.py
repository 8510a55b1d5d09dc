"""Parts as folders of npy files with numbers, texts or bytes of one shape."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from ortpkg.foundations.errors import UsageError, quoted
from ortpkg.scale.batches.rows import Array, Column

#: Python and numpy types that become one numpy type; dates and the like become texts, as in JSON.
_KINDS: tuple[tuple[tuple[type, ...], str], ...] = (
    ((bool, np.bool_), "truth values"),
    ((int, float, np.integer, np.floating), "numbers"),
    ((str, dt.date, dt.time, dt.timedelta, Decimal), "texts"),
    ((bytes,), "bytes"),
)


def write_npy(path: Path, columns: Mapping[str, Column]) -> None:
    """Write a folder with a file for each column.

    Raises:
        UsageError: Rows have different shapes or kinds, a value is missing, or columns would share
            a file.
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
    """Return a column's name as a file name that is valid on every system."""
    cleaned = "".join(
        character if character.isalnum() or character in "-_." else "_" for character in name
    )
    return cleaned.lstrip(".") or "_"


def _array(name: str, column: Column) -> Array:
    if isinstance(column, np.ndarray) and column.dtype.kind != "O":
        return column
    try:
        if all(isinstance(value, np.ndarray) and value.dtype.kind != "O" for value in column):
            return np.stack(list(column))
        values = np.asarray(column, object)
    except ValueError as error:
        raise _refused(name, "rows of different shapes") from error
    flat = values.ravel().tolist()
    kinds = dict.fromkeys(_kind(name, value) for value in flat)
    if len(kinds) > 1:
        raise _refused(name, f"{' beside '.join(kinds)}")
    if "numbers" in kinds:
        return _numbers(name, values)
    if "texts" in kinds:
        flat = [str(value) for value in flat]
    if kinds.keys() & {"texts", "bytes"} and any(value[-1:] in {"\0", b"\0"} for value in flat):
        raise _refused(name, "a text or bytes that end with NUL")
    return np.asarray(flat).reshape(values.shape)


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
    if array.dtype.kind == "O" or any(
        converted != original and converted == converted for converted, original in pairs
    ):
        raise _refused(name, "whole numbers that are too large for its type")
    return array


def _refused(name: str, what: str) -> UsageError:
    return UsageError(
        f"output {quoted(name)} has {what}, which npy files do not hold: --format parquet or jsonl"
        " does"
    )
