"""Picture of a pipeline: its steps one below the other, and a line for each value beside them.

A line begins where its value is produced, runs down, and has an arrow into each of its consumers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ortpkg.foundations.drawing.svg import box, dot, figure, group, line, shortened, text
from ortpkg.report.sections.pipeline_flow import CardKind, FlowCard, FlowLine

#: Most cards of a picture; the rest is counted.
MOST_CARDS = 40
_MOST_LINES = 8  # of inputs, and of outputs, of a card
_MOST_LANES = 16

_LANE_WIDTH = 13
_CARD_WIDTH = 900
_INDENT = 14
_HEAD = 26
_LINE_HEIGHT = 19
_GAP = 16
_TOP = 6
_LONGEST_TITLE = 96
_LONGEST_LABEL = 64
_LONGEST_LINE = 124


@dataclass(frozen=True, slots=True, kw_only=True)
class _Port:
    """Point where a value leaves or enters a card."""

    value: str
    is_taken: bool
    x: float
    y: float


@dataclass(slots=True, kw_only=True)
class _Sheet:
    """Shapes drawn so far; x counts from the right edge of the lanes."""

    shapes: list[str] = field(default_factory=list)
    ports: list[_Port] = field(default_factory=list)
    y: float = _TOP
    cards: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lane:
    """Line of a value, from where it is produced to its last use."""

    number: int
    made: _Port
    uses: tuple[_Port, ...]


def flow_picture(cards: Sequence[FlowCard], *, name: str, title: str) -> str:
    """Return a picture of the cards with the values that flow between them."""
    sheet = _Sheet()
    for card in cards:
        _draw_card(card, sheet, depth=0)
    lanes = list(_lanes(sheet.ports))
    gutter = _LANE_WIDTH * (1 + max((lane.number + 1 for lane in lanes), default=0))
    lines = [part for lane in lanes for part in _drawn(lane)]
    return figure(
        [group([*sheet.shapes, *lines], transform=f"translate({gutter} 0)")],
        width=gutter + _CARD_WIDTH + 2,
        height=round(sheet.y - _GAP + _TOP),
        name=name,
        title=title,
        description="The table below says which component takes and gives what.",
    )


def _draw_card(card: FlowCard, sheet: _Sheet, depth: int) -> None:
    """Draw a card below the last one, with the cards inside it."""
    if sheet.cards == MOST_CARDS:
        return
    sheet.cards += 1
    left, top = float(depth * _INDENT), sheet.y
    index = len(sheet.shapes)
    title = shortened(card.title, _LONGEST_TITLE)
    sign = "↻ " if card.kind is CardKind.REPEAT else ""
    sheet.shapes.append(text(left + 10, top + 17, f"{sign}{title}", kind="head"))
    sheet.y += _HEAD
    for inner in card.body:
        _draw_card(inner, sheet, depth + 1)
    _draw_lines([card_line for card_line in card.lines if card_line.is_taken], sheet, left)
    _draw_lines([card_line for card_line in card.lines if not card_line.is_taken], sheet, left)
    height = sheet.y + 4 - top
    width = _CARD_WIDTH - 2 * left
    outline = box(left, top, width, height, rx="6", kind=f"flow-{card.kind}", title=card.title)
    sheet.shapes.insert(index, outline)
    sheet.y += 4 + _GAP


def _draw_lines(lines: Sequence[FlowLine], sheet: _Sheet, left: float) -> None:
    """Draw the first inputs or outputs of a card, and the number of further ones."""
    for flow_line in lines[:_MOST_LINES]:
        label = shortened(flow_line.label, _LONGEST_LABEL)
        note = shortened(flow_line.note, _LONGEST_LINE - len(label))
        sheet.shapes.append(text(left + 14, sheet.y + 12, label, note=note))
        sheet.ports.append(
            _Port(value=flow_line.value, is_taken=flow_line.is_taken, x=left, y=sheet.y + 8)
        )
        sheet.y += _LINE_HEIGHT
    more = len(lines) - _MOST_LINES
    if more > 0:
        words = f"{'takes' if lines[0].is_taken else 'gives'} {more} more values"
        sheet.shapes.append(text(left + 14, sheet.y + 12, words, kind="small"))
        sheet.y += _LINE_HEIGHT


def _lanes(ports: Sequence[_Port]) -> Iterator[_Lane]:
    """Yield a lane for each value that is used; lanes that have ended are used again."""
    ends: list[float] = []
    for made in ports:
        if made.is_taken:
            continue
        uses = tuple(port for port in ports if port.is_taken and port.value == made.value)
        if not uses:
            continue
        number = next((n for n, end in enumerate(ends) if end < made.y), len(ends))
        if number == _MOST_LANES:
            continue
        if number == len(ends):
            ends.append(0)
        ends[number] = uses[-1].y
        yield _Lane(number=number, made=made, uses=uses)


def _drawn(lane: _Lane) -> Iterator[str]:
    x, made = -_LANE_WIDTH * (lane.number + 1.0), lane.made
    last = lane.uses[-1]
    yield line(made.x, made.y, x, made.y, kind="flow-line")
    yield line(x, made.y, x, last.y, kind="flow-line")
    yield dot(made.x, made.y, 3.5, kind="flow-dot")
    for use in lane.uses:
        yield line(x, use.y, use.x, use.y, kind="flow-line")
        yield line(use.x - 5, use.y - 4, use.x, use.y, kind="flow-line")
        yield line(use.x - 5, use.y + 4, use.x, use.y, kind="flow-line")
        if use is not last:
            yield dot(x, use.y, 2, kind="flow-dot")
