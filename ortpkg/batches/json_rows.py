"""Rows from JSON lines: an object each; blank lines are none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ortpkg.batches.parts import Part
from ortpkg.batches.rows import RowError, Rows
from ortpkg.batches.text_rows import MOST_COLUMNS, columns_of, parse_json
from ortpkg.batches.text_spans import Span, grouped, lines_of, read_errors, read_span


def json_spans(path: Path, most_rows: int, most_nbytes: int) -> Iterator[Span]:
    """The records of a file in spans."""
    with read_errors(path), path.open("rb") as file:
        yield from grouped(_ends(lines_of(file, path)), 0, most_rows, most_nbytes)


def _ends(lines: Iterator[bytes]) -> Iterator[tuple[int, bool]]:
    end = 0
    for line in lines:
        end += len(line)
        yield end, not _is_blank(line)


def _is_blank(line: bytes) -> bool:
    return not line.strip(b" \t\r\n\xef\xbb\xbf")


def read_json_rows(part: Part) -> Rows:
    """The rows of a part; what is no JSON object is an error of its row."""
    path = Path(part.files[0])
    data = read_span(path, part.offset, part.nbytes)
    if part.offset == 0:
        data = data.removeprefix(b"\xef\xbb\xbf")
    lines = [line for line in data.split(b"\n") if not _is_blank(line)]
    return columns_of(part, [_record(part, place, line) for place, line in enumerate(lines)])


def _record(part: Part, place: int, line: bytes) -> dict[str, Any] | RowError:
    try:
        value = parse_json(line.decode())
        if b"\\u" in line:  # an escape can be half a character, which no output can hold
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:  # ValueError: no UTF-8, no JSON, a huge number
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        return _error(part, place, f"it is no JSON: {why}")
    if not isinstance(value, dict):
        return _error(part, place, "it is no JSON object, with a value for each column")
    if len(value) > MOST_COLUMNS:
        return _error(part, place, f"it has {len(value)} columns, and {MOST_COLUMNS} may be")
    return value


def _error(part: Part, place: int, reason: str) -> RowError:
    return RowError(
        row_id=part.first_row + place,
        file=part.files[0],
        file_row=part.file_row + place,
        reason=reason,
    )
