"""Lays a table out for a width: no name and no number is ever broken.

It makes lines of text and prints none of them. Where a table is too wide, these are tried, in this
order: short forms of cells (names of execution providers), cells of running text on several lines,
columns left out in their stated order, and last each row as a block of its own, which has all
columns again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ortpkg.cli.wrapping import display_width, unbroken_parts, wrapped

_GAP = "  "


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        heading: what stands above it.
        is_numeric: its cells are aligned on the right.
        drops: where there is no room, columns are left out in this order, 1 first; 0: never.
        wraps: its cells are texts or lists, which may be broken between words where that leaves
            this many characters a line at least; 0: they are names or numbers.
        short: the shorter form of a cell.
    """

    heading: str
    is_numeric: bool = False
    drops: int = field(default=0, kw_only=True)
    wraps: int = field(default=0, kw_only=True)
    short: Callable[[str], str] | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLines:
    """A table as lines: its head's (none if rows are blocks), those below, and what is left out."""

    head: tuple[str, ...]
    body: tuple[str, ...]
    left_out: tuple[str, ...] = ()


def lay_out(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int | None
) -> TableLines:
    """The table's lines, none longer than ``width`` unless a single name is.

    ``width`` None allows lines of any length.
    """
    natural = _natural_widths(columns, rows)
    if width is None or _total(natural) <= width:
        return _lines(columns, rows, natural)
    texts = [
        [_shortened(column, cell) for column, cell in zip(columns, row, strict=True)]
        for row in rows
    ]
    kept = list(range(len(columns)))
    while True:
        own = [columns[index] for index in kept]
        cells = [[row[index] for index in kept] for row in texts]
        widths = _fitting_widths(own, cells, width)
        if widths is not None:
            left_out = tuple(
                each.heading for index, each in enumerate(columns) if index not in kept
            )
            return _lines(own, cells, widths, left_out)
        droppable = [index for index in kept if columns[index].drops]
        if not droppable:
            return _stacked(columns, rows, width)
        kept.remove(min(droppable, key=lambda index: columns[index].drops))


def _shortened(column: Column, cell: str) -> str:
    return cell if column.short is None else column.short(cell)


def _natural_widths(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[int]:
    """What each column takes with nothing broken."""
    return [
        max(display_width(column.heading), _longest_line([row[index] for row in rows]))
        for index, column in enumerate(columns)
    ]


def _least_widths(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[int]:
    """What each column takes with headings and texts broken between words."""
    least = []
    for index, column in enumerate(columns):
        cells = [row[index] for row in rows]
        whole = _longest_line(cells)
        cell = (
            min(whole, max([column.wraps, *map(_longest_part, cells)])) if column.wraps else whole
        )
        least.append(max(_longest_part(column.heading), cell))
    return least


def _fitting_widths(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int
) -> list[int] | None:
    """Widths that fit into ``width``; None where not even the least do."""
    fitting, wide = _least_widths(columns, rows), _natural_widths(columns, rows)
    spare = width - _total(fitting)
    if spare < 0:
        return None
    while spare and fitting != wide:  # a character in turn for each column that could do with it
        for index, natural in enumerate(wide):
            if spare and fitting[index] < natural:
                fitting[index] += 1
                spare -= 1
    return fitting


def _longest_line(cells: Sequence[str]) -> int:
    return max((display_width(line) for cell in cells for line in cell.split("\n")), default=0)


def _longest_part(text: str) -> int:
    return max(map(display_width, unbroken_parts(text)), default=0)


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * max(0, len(widths) - 1)


def _lines(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    widths: Sequence[int],
    left_out: tuple[str, ...] = (),
) -> TableLines:
    head = _row_lines(columns, [column.heading for column in columns], widths, is_head=True)
    body = [line for row in rows for line in _row_lines(columns, row, widths)]
    return TableLines(head=tuple(head), body=tuple(body), left_out=left_out)


def _row_lines(
    columns: Sequence[Column], cells: Sequence[str], widths: Sequence[int], *, is_head: bool = False
) -> list[str]:
    parts = [wrapped(cell, width) for cell, width in zip(cells, widths, strict=True)]
    height = max(map(len, parts), default=0)
    # A heading on fewer lines than others stands right above its column.
    padded = [
        [""] * (height - len(part)) + part if is_head else part + [""] * (height - len(part))
        for part in parts
    ]
    return [
        _GAP.join(
            _aligned(padded[index][line], widths[index], column.is_numeric)
            for index, column in enumerate(columns)
        ).rstrip()
        for line in range(height)
    ]


def _aligned(text: str, width: int, is_numeric: bool) -> str:
    space = " " * (width - display_width(text))
    return space + text if is_numeric else text + space


def _stacked(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> TableLines:
    """Each row as a block: its first cell, then a line for each other that says something."""
    margin = max((display_width(column.heading) for column in columns[1:]), default=0)
    hang = " " * (len(_GAP) * 2 + margin)
    body: list[str] = []
    for row in rows:
        body += [""] if body else []
        body.append(f"{columns[0].heading} {row[0]}".strip())
        for column, cell in zip(columns[1:], row[1:], strict=True):
            if cell:
                label = f"{_GAP}{_aligned(column.heading, margin, False)}{_GAP}"
                body += (
                    wrapped(f"{label}{cell}", width, hang=hang)
                    if column.wraps
                    else [f"{label}{cell}"]
                )
    return TableLines(head=(), body=tuple(body))
