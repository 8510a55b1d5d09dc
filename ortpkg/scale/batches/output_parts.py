"""Write the outputs of a part to a temporary path and rename them, so that parts are complete.

``row_id`` is the first column in all formats: the number of the row among all rows of the input.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, TextIO

import numpy as np

from ortpkg.foundations.errors import UsageError, quoted
from ortpkg.scale.batches.input_files import RowFormat
from ortpkg.scale.batches.npy_parts import write_npy
from ortpkg.scale.batches.output_pictures import write_pictures
from ortpkg.scale.batches.parquet_parts import write_parquet
from ortpkg.scale.batches.rows import Column, Rows

#: Column with the number of the input's row.
ROW_ID = "row_id"
#: Texts with these first characters are formulas to spreadsheets (OWASP, "CSV injection").
_FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_LINE_END = "\r\n"
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
#: Formats whose parts are folders instead of files.
_FOLDERS = frozenset({RowFormat.NPY, RowFormat.IMAGES})


def part_path(folder: Path, name: str, kind: RowFormat) -> Path:
    """Return the path of the part with that name, which need not exist."""
    return folder / (name if kind in _FOLDERS else f"{name}{kind.endings[0]}")


def write_part(target: Path, rows: Rows, kind: RowFormat, scratch: Path) -> None:
    """Write the outputs of a part to ``target``.

    Args:
        target: Path from :func:`part_path`. An existing part has the same rows, and stays.
        rows: At least one row.
        kind: Format of the part.
        scratch: Folder on the same file system for incomplete files.

    Raises:
        UsageError: The part cannot be written, or the format cannot hold an output.
    """
    columns = {
        ROW_ID: rows.row_ids,
        **{name: _storable(column) for name, column in rows.columns.items()},
    }
    temporary = None
    try:
        temporary = Path(mkdtemp(dir=scratch))
        staged = temporary / target.name
        _WRITERS[kind](staged, columns)
        _sync_to_disk(staged)
        _publish(staged, target)
    except OSError as error:
        raise UsageError(f"cannot write {quoted(target)}: {error.strerror or error}") from error
    except UnicodeEncodeError as error:
        raise UsageError(f"cannot write {quoted(target)}: it has a text that is none") from error
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def _publish(staged: Path, target: Path) -> None:
    if staged.is_dir():
        with suppress(FileExistsError):
            try:
                staged.rename(target)
            except OSError:  # systems report an existing folder differently
                if not target.is_dir():
                    raise
        return
    staged.replace(target)


def _sync_to_disk(path: Path) -> None:
    """Flush a file, or those of a folder, to the disk, so that a renamed part is complete."""
    for file_path in sorted(path.iterdir()) if path.is_dir() else [path]:
        with file_path.open("rb") as file:
            os.fsync(file.fileno())


def _storable(column: Column) -> Column:
    """Return numbers of types that files do not have, such as bfloat16, in the next wider type."""
    if isinstance(column, list):
        return [_storable(row) if isinstance(row, np.ndarray) else row for row in column]
    if column.dtype.kind == "V":  # types of ml_dtypes
        return column.astype(np.float32)
    return column


class _LineFeeds:
    """Text file in which lines end with only a line feed.

    The csv writer quotes only cells that contain its own line end, but readers also end records at
    a carriage return. With the longer line end, such cells are quoted, so none can start a formula.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, line: str) -> None:
        self._file.write(line.removesuffix(_LINE_END) + "\n")


def _write_csv(path: Path, columns: Mapping[str, Column]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(_LineFeeds(file), lineterminator=_LINE_END)
        writer.writerow(map(_without_formula, columns))
        for values in _records(columns):
            writer.writerow(_cell(value) for value in values)


def _cell(value: Any) -> str:
    if isinstance(value, list | dict):
        return json.dumps(value, default=_as_text)
    if isinstance(value, str):
        return _without_formula(value)
    return "" if value is None else _as_text(value)


def _without_formula(text: str) -> str:
    """Put an apostrophe before a text that spreadsheets would compute; numbers stay as they are."""
    return f"'{text}" if text.startswith(_FORMULA_SIGNS) and not _NUMBER.fullmatch(text) else text


def _write_json_lines(path: Path, columns: Mapping[str, Column]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for values in _records(columns):
            record = dict(zip(columns, values, strict=True))
            file.write(json.dumps(record, ensure_ascii=False, default=_as_text) + "\n")


def _as_text(value: Any) -> str:
    """Return values that JSON has no form for, such as dates, as text.

    Raises:
        UsageError: The value is bytes.
    """
    if isinstance(value, bytes):
        raise UsageError("a column has bytes, which texts do not hold: --format parquet does")
    return str(value)


def _records(columns: Mapping[str, Column]) -> Iterator[tuple[Any, ...]]:
    """Yield the values of each row as Python numbers, texts and lists."""
    return zip(*(_plain(column) for column in columns.values()), strict=True)


def _plain(column: Column) -> list[Any]:
    if isinstance(column, np.ndarray):
        return list(column.tolist())
    return [row.tolist() if isinstance(row, np.ndarray) else row for row in column]


_WRITERS: dict[RowFormat, Callable[[Path, Mapping[str, Column]], None]] = {
    RowFormat.PARQUET: write_parquet,
    RowFormat.CSV: _write_csv,
    RowFormat.JSON_LINES: _write_json_lines,
    RowFormat.NPY: write_npy,
    RowFormat.IMAGES: write_pictures,
}
