"""Pictures made of characters: charts of columns, maps of cells; numbers in, lines out.

Each takes no more characters than it is given. ``is_unicode`` False makes them of ASCII alone, for
what no terminal shows. Colours are the caller's: it gets runs of cells that belong together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from ortpkg.drawing.scales import maxima

_EIGHTHS = " ▁▂▃▄▅▆▇█"
_ASCII_LEVELS = " .:|#"
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#: A thing has so many cells at most where there are few: more would look like more things.
_WIDEST_CELL = 8


def letter(number: int) -> str:
    """The letter that stands for a kind of cells; letters begin anew after Z."""
    return _LETTERS[number % len(_LETTERS)]


def cell_width(count: int, width: int) -> int:
    """How many characters each of ``count`` things takes where ``width`` are there; 1 or more.

    1 where there are more things than characters, which then share them.
    """
    return max(1, min(_WIDEST_CELL, width // max(count, 1)))


def column_of(index: int, count: int, width: int) -> int:
    """The first character of thing number ``index`` of ``count``, in a picture of these."""
    if count <= width:
        return index * cell_width(count, width)
    return next(column for column in range(width) if index < (column + 1) * count // width)


def column_chart(
    values: Sequence[float], width: int, height: int = 1, *, is_unicode: bool = True
) -> list[str]:
    """A column for each of ``values``, from 0 to the greatest, as ``height`` lines.

    Of more values than ``width``, each column has the greatest of its part. What is more than 0 is
    seen.
    """
    levels = _EIGHTHS if is_unicode else _ASCII_LEVELS
    steps = len(levels) - 1
    heights = _levels(maxima(values, width), height * steps)
    repeated = cell_width(len(values), width)
    return [
        "".join(levels[min(max(each - row * steps, 0), steps)] * repeated for each in heights)
        for row in reversed(range(height))
    ]


def cell_map(kinds: Sequence[int], width: int) -> list[tuple[int, int]]:
    """(kind, cells) of each run of cells, for things of some ``kinds`` in a row.

    A cell takes :func:`cell_width` characters. Where there are more things than ``width``, it
    stands for several, and has the kind that is the rarest of all: what is few is still seen.
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
    """One cell of a map: the letter of its kind, and a line through the rest of its ``width``."""
    return letter(kind).ljust(width, "─" if is_unicode else "-")


def _levels(values: Sequence[float], most: int) -> list[int]:
    """Each value as a whole number from 0 to ``most``, which the greatest has."""
    greatest = max(values, default=0)
    return [
        max(1, round(value / greatest * most)) if value > 0 and greatest > 0 else 0
        for value in values
    ]
