"""Layout of tables for a width, in which names and numbers are never broken.

It makes lines of text and prints nothing. If a table is too wide, these are tried in order: short
forms of cells (names of execution providers), cells of running text on several lines, leaving out
columns in their stated order, and last each row as a block, which has all columns again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ortpkg.cli.wrapping import display_width, unbroken_parts, wrapped

_GAP = "  "


@dataclass(frozen=True, slots=True)
class Column:
    """Column of a table.

    Attributes:
        heading: Heading of the column.
        is_numeric: True to align its cells on the right.
        drops: Rank among the columns that are left out if there is no room, 1 first; 0 for never.
        wraps: Least width of its cells if they are running text, which may be broken between words;
            0 for names or numbers.
        short: Returns the short form of a cell.
    """

    heading: str
    is_numeric: bool = False
    drops: int = field(default=0, kw_only=True)
    wraps: int = field(default=0, kw_only=True)
    short: Callable[[str], str] | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLines:
    """Lines of a table.

    They are those of the head (none if rows are blocks) and the body, with the columns left out.
    """

    head: tuple[str, ...]
    body: tuple[str, ...]
    left_out: tuple[str, ...] = ()


def lay_out(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int | None
) -> TableLines:
    """Return the table's lines, none longer than ``width`` unless a single name is.

    ``width`` None allows lines of any length.
    """
    natural = _natural_widths(columns, rows)
    if width is None or _total(natural) <= width:
        return _lines(columns, rows, natural)
    texts = [
        [_shortened(column, cell) for column, cell in zip(columns, row, strict=True)]
        for row in rows
    ]
    indices = list(range(len(columns)))
    while True:
        kept_columns = [columns[index] for index in indices]
        cells = [[row[index] for index in indices] for row in texts]
        widths = _fitting_widths(kept_columns, cells, width)
        if widths is not None:
            left_out = tuple(
                column.heading for index, column in enumerate(columns) if index not in indices
            )
            return _lines(kept_columns, cells, widths, left_out)
        droppable = [index for index in indices if columns[index].drops]
        if not droppable:
            return _stacked(columns, rows, width)
        indices.remove(min(droppable, key=lambda index: columns[index].drops))


def _shortened(column: Column, cell: str) -> str:
    return cell if column.short is None else column.short(cell)


def _natural_widths(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the width of each column with nothing broken."""
    return [
        max(display_width(column.heading), _longest_line([row[index] for row in rows]))
        for index, column in enumerate(columns)
    ]


def _least_widths(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the width of each column with headings and texts broken between words."""
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
    """Return widths that fit into ``width``, or None if not even the least do."""
    fitting, wide = _least_widths(columns, rows), _natural_widths(columns, rows)
    spare = width - _total(fitting)
    if spare < 0:
        return None
    while spare and fitting != wide:  # one character in turn for each column that needs it
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
    # A heading with fewer lines than others is aligned at the bottom.
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
    """Return each row as a block: its first cell, then a line for each other nonempty one."""
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
