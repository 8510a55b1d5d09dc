"""Rows of CSV files with a header line, parsed like Python's csv module."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from ortpkg.foundations.errors import UsageError, quoted
from ortpkg.scale.batches.parts import Part
from ortpkg.scale.batches.rows import RowError, Rows
from ortpkg.scale.batches.text_rows import MOST_COLUMNS, columns_of
from ortpkg.scale.batches.text_spans import (
    MOST_LINE_NBYTES,
    Span,
    grouped,
    lines_of,
    read_errors,
    read_span,
)

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class _CountedLines:
    """Lines as texts with one character for each byte; counts the bytes that were read."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._lines = iter(lines)
        self.nbytes = 0

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            self.nbytes += len(line)
            yield line.decode("latin-1")


def csv_header(path: Path) -> list[str]:
    """Return the names of a file's columns.

    Raises:
        UsageError: There is no header, or a name is repeated.
    """
    with read_errors(path), path.open("rb") as file:
        return _header(file, path)[0]


def csv_spans(path: Path, most_rows: int, most_nbytes: int) -> Iterator[Span]:
    """Yield spans of whole records in a file; blank lines are not records."""
    with read_errors(path), path.open("rb") as file:
        _, start = _header(file, path)
        file.seek(start)
        yield from grouped(_ends(file, path, start), start, most_rows, most_nbytes)


def _header(file: BinaryIO, path: Path) -> tuple[list[str], int]:
    """Return the names of the columns, and the offset of the first record."""
    lines = _CountedLines(lines_of(file, path))
    try:
        cells = next(_reader(iter(lines)), [])
        names = [
            cell.encode("latin-1").removeprefix(b"" if index else _BYTE_ORDER_MARK).decode("utf-8")
            for index, cell in enumerate(cells)
        ]
    except (csv.Error, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the header of {quoted(path)}: {error}") from error
    if not names:
        raise UsageError(f"{quoted(path)} has no header: its first line names the columns")
    if len(names) > MOST_COLUMNS:
        raise UsageError(
            f"{quoted(path)} has {len(names)} columns, and {MOST_COLUMNS} may be: one column can"
            ' hold a list as JSON ("[1, 2]"), and npy and Parquet hold arrays'
        )
    unique: set[str] = set()
    for name in names:
        if name in unique:
            raise UsageError(f"{quoted(path)} has two columns {quoted(name)}")
        unique.add(name)
    return names, lines.nbytes


def _ends(file: BinaryIO, path: Path, start: int) -> Iterator[tuple[int, bool]]:
    lines = _CountedLines(lines_of(file, path))
    try:
        for record in _reader(iter(lines)):
            yield start + lines.nbytes, bool(record)
    except csv.Error as error:
        raise UsageError(
            f"cannot read {quoted(path)} after byte {start + lines.nbytes}: {error}"
        ) from error


def _reader(lines: Iterator[str]) -> Iterator[list[str]]:
    csv.field_size_limit(MOST_LINE_NBYTES)
    return csv.reader(lines)


def read_csv_rows(part: Part) -> Rows:
    """Return the rows of a part, with texts as values.

    A record that is not UTF-8, or does not have a value for each column, is an error of its row.
    """
    path = Path(part.files[0])
    names = csv_header(path)
    data = read_span(path, part.offset, part.nbytes)
    try:
        records = [record for record in _reader(iter(_split(data))) if record]
    except csv.Error as error:
        raise UsageError(f"{quoted(path)} has changed while the batch ran: {error}") from error
    return columns_of(
        part, [_record(part, index, names, record) for index, record in enumerate(records)]
    )


def _split(data: bytes) -> list[str]:
    """Return the lines as they were counted: only a line feed ends one."""
    lines = data.decode("latin-1").split("\n")
    return [f"{line}\n" for line in lines[:-1]] + lines[-1:] * bool(lines[-1])


def _record(
    part: Part, index: int, names: list[str], cells: list[str]
) -> dict[str, Any] | RowError:
    def error(reason: str) -> RowError:
        return RowError(
            row_id=part.first_row + index,
            file=part.files[0],
            file_row=part.file_row + index,
            reason=reason,
        )

    if len(cells) != len(names):
        return error(f"it has {len(cells)} values; the header names {len(names)} columns")
    try:
        return {
            name: cell if cell.isascii() else cell.encode("latin-1").decode("utf-8")
            for name, cell in zip(names, cells, strict=True)
        }
    except UnicodeDecodeError as problem:
        return error(f"it is no UTF-8: {problem}")
