"""The memory pattern as a picture: steps to the right, the block's bytes upwards, a box per value.

Two boxes that overlap would be two values that share bytes while both are alive. A dashed line is
the peak, a dotted one the least that any layout of this order could need.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ortpkg.drawing.palette import fill_kind
from ortpkg.drawing.scales import Scale
from ortpkg.drawing.svg import box, document, line, shortened, text
from ortpkg.session.session_plan import GraphPlan, PlannedValue

_WIDTH, _HEIGHT = 1100, 520
_LEFT, _RIGHT, _TOP, _BOTTOM = 90, 20, 44, 46
_LEAST_LABEL_WIDTH, _LEAST_LABEL_HEIGHT, _CHARACTER_WIDTH = 40.0, 11.0, 6.0
_TICKS = 5


def memory_timeline_svg(graph: GraphPlan, title: str) -> str:
    """An SVG document of every value of ``graph`` that lies in a block.

    Devices are drawn above each other.

    Args:
        graph: the plan.
        title: of the picture, as plain text.
    """
    laid_out = [value for value in graph.values if value.offset is not None and value.nbytes]
    bases, total = _bases(laid_out)
    steps = max(len(graph.nodes), 1)
    total = max(total, graph.peak_nbytes, 1)
    across = Scale(start=_LEFT, end=_WIDTH - _RIGHT, greatest=steps)
    upward = Scale(start=_HEIGHT - _BOTTOM, end=_TOP, greatest=total)
    parts = [
        text(_LEFT, 22, title, kind="title"),
        *_axes(across, upward),
        *_boxes(laid_out, bases, across, upward),
        *_level("peak", graph.peak_nbytes, upward, "6 4", label_below=-4),
        *_level("least possible", graph.least_possible_nbytes, upward, "2 3", label_below=13),
    ]
    return document(parts, width=_WIDTH, height=_HEIGHT, title=title)


def bytes_text(nbytes: float) -> str:
    """A size for an axis or a label, in decimal units."""
    for unit in ("B", "kB", "MB"):
        if nbytes < 1000:
            return f"{nbytes:.4g} {unit}"
        nbytes /= 1000
    return f"{nbytes:.4g} GB"


def _bases(values: Iterable[PlannedValue]) -> tuple[dict[str, int], int]:
    """Where the block of each device begins in the picture, and where the last one ends."""
    tops: dict[str, int] = {}
    for value in values:
        assert value.offset is not None
        tops[value.device] = max(tops.get(value.device, 0), value.offset + (value.nbytes or 0))
    bases, base = {}, 0
    for device, top in tops.items():
        bases[device] = base
        base += top
    return bases, base


def _boxes(
    values: Sequence[PlannedValue], bases: dict[str, int], across: Scale, upward: Scale
) -> list[str]:
    parts = []
    final = round(across.greatest) - 1
    for number, value in enumerate(values):
        assert value.offset is not None
        nbytes = value.nbytes or 0
        last = final if value.last_step is None else min(value.last_step, final)
        width = max(across.length(last - value.first_step + 1), 0.5)
        height = max(upward.length(nbytes), 0.5)
        x = across.place(value.first_step)
        y = upward.place(bases[value.device] + value.offset) - height
        what = (
            f"{value.name}: {bytes_text(nbytes)} at {value.offset} on {value.device},"
            f" steps {value.first_step} to {last}"
        )
        parts.append(box(x, y, width, height, title=what, kind=f"{fill_kind(number)} outlined"))
        if width >= _LEAST_LABEL_WIDTH and height >= _LEAST_LABEL_HEIGHT:
            label = shortened(value.name, int(width / _CHARACTER_WIDTH) - 1)
            parts.append(text(x + 3, y + height / 2 + 4, label, kind="name"))
    return parts


def _axes(across: Scale, upward: Scale) -> list[str]:
    floor, middle = upward.start, (across.start + across.end) / 2
    legend = "step of the execution plan"
    parts = [
        line(across.start, floor, across.end, floor, kind="axis"),
        line(across.start, upward.end, across.start, floor, kind="axis"),
        text(middle, _HEIGHT - 10, legend, kind="small", text_anchor="middle"),
    ]
    for tick in upward.even_ticks(_TICKS):
        where = upward.place(tick) + 4
        parts.append(text(_LEFT - 6, where, bytes_text(tick), kind="small", text_anchor="end"))
    for step in dict.fromkeys(map(round, across.even_ticks(_TICKS))):
        x = across.place(step)
        parts.append(text(x, floor + 16, str(step), kind="small", text_anchor="middle"))
    return parts


def _level(what: str, nbytes: int, upward: Scale, dashes: str, *, label_below: int) -> list[str]:
    y, right = upward.place(nbytes), _WIDTH - _RIGHT
    label = f"{what} {bytes_text(nbytes)}"
    return [
        line(_LEFT, y, right, y, kind="level", stroke_dasharray=dashes),
        text(right, y + label_below, label, kind="small flag", text_anchor="end"),
    ]
