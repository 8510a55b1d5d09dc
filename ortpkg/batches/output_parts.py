"""Writes the outputs of a part: beside its place, then renamed, so that it is there whole or not.

``row_id`` comes first in all formats: the number of the row among all rows of the input.
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

from ortpkg.batches.input_files import RowFormat
from ortpkg.batches.npy_parts import write_npy
from ortpkg.batches.output_pictures import write_pictures
from ortpkg.batches.parquet_parts import write_parquet
from ortpkg.batches.rows import Column, Rows
from ortpkg.errors import UsageError, quoted

#: The column that says which row of the input it is.
ROW_ID = "row_id"
#: Texts that begin so are formulas to spreadsheets (OWASP, "CSV injection").
_FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_LINE_END = "\r\n"
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
#: Formats whose parts are folders, and not files.
_FOLDERS = frozenset({RowFormat.NPY, RowFormat.IMAGES})


def part_path(folder: Path, name: str, kind: RowFormat) -> Path:
    """Where the part of that name is, or will be."""
    return folder / (name if kind in _FOLDERS else f"{name}{kind.endings[0]}")


def write_part(target: Path, rows: Rows, kind: RowFormat, scratch: Path) -> None:
    """Writes what the rows of a part gave to ``target``.

    Args:
        target: as :func:`part_path` says. One that is there already is of the same rows, and stays.
        rows: at least one.
        kind: the format.
        scratch: a folder on the same file system, for what is not whole yet.

    Raises UsageError where it cannot be written, or the format cannot hold an output.
    """
    columns = {
        ROW_ID: rows.row_ids,
        **{name: _storable(each) for name, each in rows.columns.items()},
    }
    temporary = None
    try:
        temporary = Path(mkdtemp(dir=scratch))
        made = temporary / target.name
        _WRITERS[kind](made, columns)
        _settle(made)
        _place(made, target)
    except OSError as error:
        raise UsageError(f"cannot write {quoted(target)}: {error.strerror or error}") from error
    except UnicodeEncodeError as error:
        raise UsageError(f"cannot write {quoted(target)}: it has a text that is none") from error
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def _place(made: Path, target: Path) -> None:
    if made.is_dir():
        with suppress(FileExistsError):
            try:
                made.rename(target)
            except OSError:  # systems differ in what they say of a folder that is there
                if not target.is_dir():
                    raise
        return
    made.replace(target)


def _settle(path: Path) -> None:
    """Brings a file, or those of a folder, to the disk: what is renamed is never half there."""
    for each in sorted(path.iterdir()) if path.is_dir() else [path]:
        with each.open("rb") as file:
            os.fsync(file.fileno())


def _storable(column: Column) -> Column:
    """Numbers that files have no type for, bfloat16 and the like, as the next wider one."""
    if isinstance(column, list):
        return [_storable(each) if isinstance(each, np.ndarray) else each for each in column]
    if column.dtype.kind == "V":  # of ml_dtypes
        return column.astype(np.float32)
    return column


class _LineFeeds:
    """Ends lines with a line feed alone.

    The writer quotes cells with a character of its own line end alone, and readers end records at
    a carriage return, too: behind it a cell would begin, which may be a formula.
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
            writer.writerow(_cell(each) for each in values)


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
    """What JSON has no form for, e.g. a date, as people write it. UsageError for bytes."""
    if isinstance(value, bytes):
        raise UsageError("a column has bytes, which texts do not hold: --format parquet does")
    return str(value)


def _records(columns: Mapping[str, Column]) -> Iterator[tuple[Any, ...]]:
    """The values of each row, as Python has them: numbers, texts, lists."""
    return zip(*(_plain(each) for each in columns.values()), strict=True)


def _plain(column: Column) -> list[Any]:
    if isinstance(column, np.ndarray):
        return list(column.tolist())
    return [each.tolist() if isinstance(each, np.ndarray) else each for each in column]


_WRITERS: dict[RowFormat, Callable[[Path, Mapping[str, Column]], None]] = {
    RowFormat.PARQUET: write_parquet,
    RowFormat.CSV: _write_csv,
    RowFormat.JSON_LINES: _write_json_lines,
    RowFormat.NPY: write_npy,
    RowFormat.IMAGES: write_pictures,
}
