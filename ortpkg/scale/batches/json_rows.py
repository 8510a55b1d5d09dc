"""Rows of JSON lines: one object each, without blank lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ortpkg.scale.batches.parts import Part
from ortpkg.scale.batches.rows import RowError, Rows
from ortpkg.scale.batches.text_rows import MOST_COLUMNS, columns_of, parse_json
from ortpkg.scale.batches.text_spans import Span, grouped, lines_of, read_errors, read_span


def json_spans(path: Path, most_rows: int, most_nbytes: int) -> Iterator[Span]:
    """Yield the records of a file in spans."""
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
    """Return the rows of a part; a line that is not a JSON object is an error of its row."""
    path = Path(part.files[0])
    data = read_span(path, part.offset, part.nbytes)
    if part.offset == 0:
        data = data.removeprefix(b"\xef\xbb\xbf")
    lines = [line for line in data.split(b"\n") if not _is_blank(line)]
    return columns_of(part, [_record(part, index, line) for index, line in enumerate(lines)])


def _record(part: Part, index: int, line: bytes) -> dict[str, Any] | RowError:
    try:
        value = parse_json(line.decode())
        if b"\\u" in line:  # an escape can be half a character, which no output can hold
            json.dumps(value, ensure_ascii=False).encode()
    # ValueError: not UTF-8, not JSON, or a huge number
    except (ValueError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        return _error(part, index, f"it is no JSON: {why}")
    if not isinstance(value, dict):
        return _error(part, index, "it is no JSON object, with a value for each column")
    if len(value) > MOST_COLUMNS:
        return _error(part, index, f"it has {len(value)} columns, and {MOST_COLUMNS} may be")
    return value


def _error(part: Part, index: int, reason: str) -> RowError:
    return RowError(
        row_id=part.first_row + index,
        file=part.files[0],
        file_row=part.file_row + index,
        reason=reason,
    )
