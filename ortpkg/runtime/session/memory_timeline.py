"""Picture of the memory pattern: steps to the right, a block's bytes upwards, a box per value.

Two boxes that overlap are two values in one buffer: the second replaces the first, which a dot
marks. Any other overlap would be an error of the plan. The curve below shows the bytes in use at
the same steps; its maximum is the least that any layout could need.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ortpkg.foundations.drawing import svg
from ortpkg.foundations.drawing.palette import FILL_COUNT, fill_kind
from ortpkg.foundations.drawing.scales import Scale, maxima
from ortpkg.foundations.quantities import nbytes_text
from ortpkg.runtime.session.memory_profile import (
    BlockPeak,
    LaidOutValue,
    block_peaks,
    bytes_in_use,
    laid_out_values,
)
from ortpkg.runtime.session.session_plan import GraphPlan

_LEFT, _RIGHT, _BOTTOM = 76, 24, 46
_DOCUMENT_WIDTH, _FIGURE_WIDTH, _GREATEST_WIDTH = 1100, 860, 2000
_STEP_WIDTH = 4.0
_BLOCKS_HEIGHT, _LEAST_BLOCK_HEIGHT, _USE_HEIGHT = 340, 120, 70
_TITLE_HEIGHT, _LEGEND_HEIGHT, _HEADING_HEIGHT, _GAP = 30, 20, 30, 10
_LEAST_LABEL_WIDTH, _LEAST_LABEL_HEIGHT, _CHARACTER_WIDTH = 40.0, 12.0, 6.2
_LEAST_DOT_HEIGHT, _LEAST_OPERATOR_WIDTH = 8.0, 56.0
_TICKS = 4
_LONGEST_NAME = 60
_LONGEST_TITLE = 120
_MOST_BOXES = 5_000
_EMPTY = "no value lies in a block: there are no intermediate values of a known size"


def memory_timeline_svg(graph: GraphPlan, title: str) -> str:
    """Return an SVG document of the values of ``graph`` that lie in a block, a panel per block.

    Args:
        graph: the plan.
        title: title of the picture, as plain text.
    """
    timeline = _timeline(graph, _DOCUMENT_WIDTH, _MOST_BOXES)
    heading = svg.label(_LEFT, 24, title, _LONGEST_TITLE, kind="title")
    return svg.document(
        [heading, *_parts(timeline, _TITLE_HEIGHT)],
        width=timeline.width,
        height=_TITLE_HEIGHT + timeline.height,
        title=title,
        description=_description(timeline),
    )


def memory_timeline_figure(
    graph: GraphPlan, title: str, *, name: str, most_boxes: int = _MOST_BOXES
) -> str:
    """Return the picture for a page, without a heading.

    Args:
        graph: the plan.
        title: description of the picture for readers who cannot see it.
        name: prefix of the ids in it; see :func:`ortpkg.foundations.drawing.svg.figure`.
        most_boxes: limit of boxes; of more values, the largest are drawn.
    """
    timeline = _timeline(graph, _FIGURE_WIDTH, most_boxes)
    return svg.figure(
        _parts(timeline, 0),
        width=timeline.width,
        height=timeline.height,
        name=name,
        title=title,
        description=_description(timeline),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Timeline:
    """Content and width of the picture: all values of the graph, and those that get boxes."""

    graph: GraphPlan
    values: tuple[LaidOutValue, ...]
    boxed: tuple[LaidOutValue, ...]
    peaks: tuple[BlockPeak, ...]
    in_use: tuple[int, ...]
    across: Scale
    width: int

    @property
    def block_height(self) -> int:
        return max(_LEAST_BLOCK_HEIGHT, _BLOCKS_HEIGHT // max(len(self.peaks), 1))

    @property
    def height(self) -> int:
        """Height of the picture without the title."""
        panel = _HEADING_HEIGHT + self.block_height + _GAP
        return (
            len(_legend(self)) * _LEGEND_HEIGHT
            + max(len(self.peaks), 1) * panel
            + _HEADING_HEIGHT
            + _USE_HEIGHT
        ) + _BOTTOM


def _timeline(graph: GraphPlan, least_width: int, most_boxes: int) -> _Timeline:
    values = laid_out_values(graph)
    steps = max(len(graph.nodes), 1)
    wanted = _LEFT + _RIGHT + round(steps * _STEP_WIDTH)
    width = min(max(least_width, wanted), _GREATEST_WIDTH)
    largest = sorted(range(len(values)), key=lambda index: -values[index].nbytes)[:most_boxes]
    return _Timeline(
        graph=graph,
        values=values,
        boxed=tuple(values[index] for index in sorted(largest)),
        peaks=block_peaks(graph, values),
        in_use=bytes_in_use(values, steps),
        across=Scale(start=_LEFT, end=width - _RIGHT, greatest=steps),
        width=width,
    )


def _parts(timeline: _Timeline, top: int) -> Iterator[str]:
    """Yield everything below the title, which ends at ``top``."""
    for words in _legend(timeline):
        yield svg.text(_LEFT, top + 14, words, kind="small")
        top += _LEGEND_HEIGHT
    if not timeline.values:
        yield svg.text(_LEFT, top + 60, _EMPTY)
    for peak in timeline.peaks:
        yield from _block(timeline, peak, top + _HEADING_HEIGHT)
        top += _HEADING_HEIGHT + timeline.block_height + _GAP
    if timeline.values:
        yield from _use(timeline, top + _HEADING_HEIGHT)
        yield from _steps(timeline, top + _HEADING_HEIGHT + _USE_HEIGHT)


def _legend(timeline: _Timeline) -> tuple[str, ...]:
    """Return the legend, and a line about what is left out."""
    signs = (
        f"one colour for each buffer ({FILL_COUNT} in turn)",
        "a dot: the next value takes over the buffer",
        "dashed: no layout of this order needs less",
    )
    left_out = []
    if smaller := len(timeline.values) - len(timeline.boxed):
        left_out.append(f"{smaller} smaller values are left out")
    if unknown := timeline.graph.unknown_count:
        left_out.append(f"{unknown} values whose size only a run tells are left out")
    return tuple("; ".join(line) for line in (signs, left_out) if line)


def _description(timeline: _Timeline) -> str:
    if not timeline.values:
        return _EMPTY
    buffers = len({value.buffer for value in timeline.values})
    texts = [
        f"{len(timeline.values)} values in {buffers} buffers over {len(timeline.graph.nodes)} steps"
    ]
    texts += [_peak_text(peak, timeline) for peak in timeline.peaks]
    return "; ".join((*texts, _least_text(timeline)))


def _peak_text(peak: BlockPeak, timeline: _Timeline) -> str:
    where = f"{peak.device}: " if len(timeline.peaks) > 1 else ""
    operator = svg.shortened(timeline.graph.nodes[peak.step].op_type, _LONGEST_NAME)
    return f"{where}peak {nbytes_text(peak.nbytes)}, reached at step {peak.step} ({operator})"


def _least_text(timeline: _Timeline) -> str:
    least = max(timeline.in_use)
    step = timeline.in_use.index(least)
    return f"in use: at most {nbytes_text(least)}, at step {step}"


def _block(timeline: _Timeline, peak: BlockPeak, top: float) -> Iterator[str]:
    """Yield the panel of one memory; its plot begins at ``top``."""
    across = timeline.across
    upward = Scale(start=top + timeline.block_height, end=top, greatest=max(peak.nbytes, 1))
    yield svg.text(_LEFT, top - 12, _peak_text(peak, timeline), kind="flag")
    yield from _panel(timeline, upward)
    boxed = [value for value in timeline.boxed if value.device == peak.device]
    yield from _boxes(boxed, across, upward)
    yield svg.line(across.start, top, across.end, top, kind="level", stroke_width="1.5")
    if len(timeline.peaks) == 1:
        yield _least_line(timeline, upward)
    middle = across.place(peak.step + 0.5)
    yield svg.area(
        [(middle - 5, top - 7), (middle, top), (middle + 5, top - 7)], top - 7, kind="mark"
    )


def _use(timeline: _Timeline, top: float) -> Iterator[str]:
    """Yield the curve of bytes in use, over the same steps."""
    across, in_use = timeline.across, timeline.in_use
    most = max(in_use)
    upward = Scale(start=top + _USE_HEIGHT, end=top, greatest=max(most, 1))
    yield svg.text(_LEFT, top - 8, _least_text(timeline), kind="head")
    yield from _panel(timeline, upward, ticks=2)
    columns = maxima(in_use, round(across.end - across.start))
    column_width = (across.end - across.start) / len(columns)
    points = []
    for number, nbytes in enumerate(columns):
        y = upward.place(nbytes)
        points += [
            (across.start + number * column_width, y),
            (across.start + (number + 1) * column_width, y),
        ]
    yield svg.area(points, upward.start, kind="area")
    yield _least_line(timeline, upward)


def _least_line(timeline: _Timeline, upward: Scale) -> str:
    y, across = upward.place(max(timeline.in_use)), timeline.across
    return svg.line(across.start, y, across.end, y, kind="axis", stroke_dasharray="5 4")


def _panel(timeline: _Timeline, upward: Scale, *, ticks: int = _TICKS) -> Iterator[str]:
    """Yield the background of a plot, with lines at round numbers of bytes."""
    across = timeline.across
    width, height = across.end - across.start, upward.start - upward.end
    yield svg.box(across.start, upward.end, width, height, kind="panel")
    for tick in upward.round_ticks(ticks):
        y = upward.place(tick)
        yield svg.line(across.start, y, across.end, y, kind="grid")
        label = nbytes_text(round(tick)).replace(".0 ", " ")
        yield svg.text(across.start - 6, y + 4, label, kind="small", text_anchor="end")
    yield svg.line(across.start, upward.start, across.end, upward.start, kind="axis")


def _boxes(values: Sequence[LaidOutValue], across: Scale, upward: Scale) -> Iterator[str]:
    """Yield the values' boxes, those of one colour together, then the marks on them."""
    by_kind: dict[str, list[str]] = {}
    marks: list[str] = []
    buffers: set[int] = set()
    for value in values:
        width = max(across.length(value.last_step - value.first_step + 1), 0.5)
        height = max(upward.length(value.nbytes), 0.5)
        x, y = across.place(value.first_step), upward.place(value.offset) - height
        drawn = svg.box(x, y, width, height, title=_value_text(value))
        by_kind.setdefault(fill_kind(value.buffer), []).append(drawn)
        takes_over = value.buffer in buffers
        buffers.add(value.buffer)
        if takes_over and height >= _LEAST_DOT_HEIGHT:
            marks.append(svg.dot(x, y + height / 2, 2.5, kind="dot"))
        if width >= _LEAST_LABEL_WIDTH and height >= _LEAST_LABEL_HEIGHT:
            room = int((width - 8) / _CHARACTER_WIDTH)
            marks.append(svg.label(x + 5, y + height / 2 + 4, value.name, room, kind="name"))
    for kind, drawn_boxes in by_kind.items():
        yield svg.group(drawn_boxes, kind=f"{kind} outlined")
    yield from marks


def _value_text(value: LaidOutValue) -> str:
    name = svg.shortened(value.name, _LONGEST_TITLE)
    return (
        f"{name}: {nbytes_text(value.nbytes)} at byte {value.offset}, steps {value.first_step} to"
        f" {value.last_step}, buffer {value.buffer}"
    )


def _steps(timeline: _Timeline, floor: float) -> Iterator[str]:
    """Yield the axis of steps, with the operator of each if there is room."""
    across, nodes = timeline.across, timeline.graph.nodes
    step_width = across.length(1)
    if step_width >= _LEAST_OPERATOR_WIDTH:
        for node in nodes:
            words, room = f"{node.step} {node.op_type}", int(step_width / _CHARACTER_WIDTH) - 1
            middle = across.place(node.step + 0.5)
            yield svg.label(middle, floor + 16, words, room, kind="small", text_anchor="middle")
    else:
        for tick in dict.fromkeys(map(round, across.round_ticks(8))):
            if tick < len(nodes):
                middle = across.place(tick + 0.5)
                yield svg.text(middle, floor + 16, str(tick), kind="small", text_anchor="middle")
    middle = (across.start + across.end) / 2
    legend = "step of the execution plan"
    yield svg.text(middle, floor + 36, legend, kind="small", text_anchor="middle")
