"""Pictures made of characters: column charts and maps of cells.

Each keeps within the given number of characters. With ``is_unicode`` False they contain only ASCII,
for limited terminals. The caller adds colours to runs of cells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from ortpkg.foundations.drawing.scales import maxima

_EIGHTHS = " ▁▂▃▄▅▆▇█"
_ASCII_LEVELS = " .:|#"
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#: Most characters of one item if there are few, because more would look like several items.
_WIDEST_CELL = 8


def letter(number: int) -> str:
    """Return the letter of a kind of cells; letters repeat after Z."""
    return _LETTERS[number % len(_LETTERS)]


def cell_width(count: int, width: int) -> int:
    """Return the number of characters of each of ``count`` items within ``width``, at least 1.

    It is 1 also if there are more items than characters, which then share them.
    """
    return max(1, min(_WIDEST_CELL, width // max(count, 1)))


def column_of(index: int, count: int, width: int) -> int:
    """Return the first character of item number ``index`` of ``count`` in such a picture."""
    if count <= width:
        return index * cell_width(count, width)
    return next(column for column in range(width) if index < (column + 1) * count // width)


def column_chart(
    values: Sequence[float], width: int, height: int = 1, *, is_unicode: bool = True
) -> list[str]:
    """Return a column for each of ``values``, from 0 to the greatest, as ``height`` lines.

    If there are more values than ``width``, each column shows the greatest of its part. Every
    positive value is visible.
    """
    levels = _EIGHTHS if is_unicode else _ASCII_LEVELS
    steps = len(levels) - 1
    heights = _levels(maxima(values, width), height * steps)
    repeated = cell_width(len(values), width)
    return [
        "".join(levels[min(max(level - row * steps, 0), steps)] * repeated for level in heights)
        for row in reversed(range(height))
    ]


def cell_map(kinds: Sequence[int], width: int) -> list[tuple[int, int]]:
    """Return kind and number of cells of each run, for items of some ``kinds`` in a row.

    A cell has :func:`cell_width` characters. If there are more items than ``width``, a cell stands
    for several and has the rarest of their kinds, so that rare kinds stay visible.
    """
    counts, total = Counter(kinds), len(kinds)
    cells = list(kinds)
    if total > width:
        parts = [
            kinds[number * total // width : (number + 1) * total // width]
            for number in range(width)
        ]
        cells = [min(part, key=lambda kind: (counts[kind], kind)) for part in parts]
    return [(kind, len(list(run))) for kind, run in groupby(cells)]


def cell(kind: int, width: int, *, is_unicode: bool = True) -> str:
    """Return one cell of a map: the letter of its kind, then a line up to its ``width``."""
    return letter(kind).ljust(width, "─" if is_unicode else "-")


def _levels(values: Sequence[float], most: int) -> list[int]:
    """Return each value as an integer from 0 to ``most``, which the greatest has."""
    greatest = max(values, default=0)
    return [
        max(1, round(value / greatest * most)) if value > 0 and greatest > 0 else 0
        for value in values
    ]
