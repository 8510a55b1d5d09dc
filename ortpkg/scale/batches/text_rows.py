"""Conversion of records of text files to columns."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ortpkg.foundations.errors import UsageError, quoted
from ortpkg.scale.batches.parts import Part
from ortpkg.scale.batches.rows import RowError, Rows

#: Most columns of a file, whose records are dictionaries.
MOST_COLUMNS = 1 << 14


class Missing:
    """Placeholder in a column for a row without a value."""

    def __repr__(self) -> str:
        return "MISSING"

    def __reduce__(self) -> str:
        return "MISSING"


MISSING = Missing()


def columns_of(part: Part, records: Sequence[Mapping[str, Any] | RowError]) -> Rows:
    """Return the records of a part, one for each of its rows, as columns.

    Raises:
        UsageError: The number of records differs from the counted one, or there are too many
            columns.
    """
    if len(records) != part.count:
        raise UsageError(f"{quoted(part.files[0])} has changed while the batch ran")
    row_ids, errors = [], []
    good: list[Mapping[str, Any]] = []
    for index, record in enumerate(records):
        if isinstance(record, RowError):
            errors.append(record)
        else:
            row_ids.append(part.first_row + index)
            good.append(record)
    names: dict[str, None] = {}
    for record in good:
        names.update(dict.fromkeys(record))
        # Each column needs room in every row.
        if len(names) > MOST_COLUMNS:
            file = quoted(part.files[0])
            raise UsageError(f"the rows of {file} have more than {MOST_COLUMNS} columns together")
    return Rows(
        row_ids=np.asarray(row_ids, np.int64),
        columns={name: [record.get(name, MISSING) for record in good] for name in names},
        errors=tuple(errors),
    )


def parse_json(text: str) -> Any:
    """Parse a JSON text; NaN, Infinity and -Infinity are numbers, as in Python.

    Raises:
        ValueError: The text is not JSON, or a number is too large for float64.
        RecursionError: The text is nested too deeply.
    """
    return _DECODER.decode(text)


def parse_float(text: str) -> float:
    """Parse a number in digits, "nan" or "inf".

    Raises:
        ValueError: The text is not a number, or too large for float64.
    """
    number = float(text)
    if math.isinf(number) and "inf" not in text.lower():
        raise ValueError(f"the number {text[:20]} is larger than any float64")
    return number


_DECODER = json.JSONDecoder(parse_float=parse_float)
