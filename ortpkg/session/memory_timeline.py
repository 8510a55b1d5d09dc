"""The memory pattern as a picture: steps from left to right, the block's bytes from bottom to top,
one box a value.

Two boxes that overlap would be two values that share bytes while both are alive. A dashed line is
the peak, a dotted one the least that any layout of this order could need.
"""

from __future__ import annotations

import colorsys
from collections.abc import Iterable, Sequence
from xml.sax import saxutils

from ortpkg.session.session_plan import GraphPlan, PlannedValue

_WIDTH, _HEIGHT = 1100, 520
_LEFT, _RIGHT, _TOP, _BOTTOM = 90, 20, 44, 46
_LEAST_LABEL_WIDTH, _LEAST_LABEL_HEIGHT, _CHARACTER_WIDTH = 40.0, 11.0, 6.0
_TICKS = 5


def memory_timeline_svg(graph: GraphPlan, title: str) -> str:
    """An SVG document of every value of ``graph`` that lies in a block; devices are drawn above
    each other.

    Args:
        graph: the plan.
        title: of the picture, as plain text.
    """
    laid_out = [value for value in graph.values if value.offset is not None and value.nbytes]
    bases, total = _bases(laid_out)
    steps = max(len(graph.nodes), 1)
    total = max(total, graph.peak_nbytes, 1)
    across = (_WIDTH - _LEFT - _RIGHT) / steps
    upward = (_HEIGHT - _TOP - _BOTTOM) / total
    parts = [*_axes(steps, total), *_boxes(laid_out, bases, across, upward, steps)]
    for nbytes, dashes, label in (
        (graph.peak_nbytes, "6 4", f"peak {bytes_text(graph.peak_nbytes)}"),
        (
            graph.least_possible_nbytes,
            "2 3",
            f"least possible {bytes_text(graph.least_possible_nbytes)}",
        ),
    ):
        parts += _level(nbytes, upward, dashes, label, above=dashes == "6 4")
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0'
        f' {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="11">\n<rect width="100%"'
        f' height="100%" fill="white"/>\n<text x="{_LEFT}" y="20" font-size="14"'
        f' font-weight="bold">{escape(title)}</text>\n{body}\n</svg>\n'
    )


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
    values: Sequence[PlannedValue], bases: dict[str, int], across: float, upward: float, steps: int
) -> list[str]:
    parts = []
    for number, value in enumerate(values):
        assert value.offset is not None
        last = steps - 1 if value.last_step is None else min(value.last_step, steps - 1)
        width = max((last - value.first_step + 1) * across, 0.5)
        height = max((value.nbytes or 0) * upward, 0.5)
        x = _LEFT + value.first_step * across
        y = _HEIGHT - _BOTTOM - (bases[value.device] + value.offset) * upward - height
        life = f"steps {value.first_step} to {last}"
        text = (
            f"{value.name}: {bytes_text(value.nbytes or 0)} at {value.offset} on {value.device},"
            f" {life}"
        )
        parts.append(
            f'<rect x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}"'
            f' fill="{_colour(number)}" stroke="#444"'
            f' stroke-width="0.4"><title>{escape(text)}</title></rect>'
        )
        if width >= _LEAST_LABEL_WIDTH and height >= _LEAST_LABEL_HEIGHT:
            label = _shortened(value.name, int(width / _CHARACTER_WIDTH) - 1)
            parts.append(
                f'<text x="{x + 3:.2f}" y="{y + height / 2 + 4:.2f}">{escape(label)}</text>'
            )
    return parts


def _axes(steps: int, total: int) -> list[str]:
    floor, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    parts = [
        f'<line x1="{_LEFT}" y1="{floor}" x2="{right}" y2="{floor}" stroke="black"/>',
        f'<line x1="{_LEFT}" y1="{_TOP}" x2="{_LEFT}" y2="{floor}" stroke="black"/>',
        (
            f'<text x="{(_LEFT + right) / 2}" y="{_HEIGHT - 10}" text-anchor="middle">step of the'
            " execution plan</text>"
        ),
    ]
    for tick in range(_TICKS + 1):
        y = floor - tick * (floor - _TOP) / _TICKS
        parts.append(
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}"'
            f' text-anchor="end">{bytes_text(total * tick / _TICKS)}</text>'
        )
    for step in dict.fromkeys(round(steps * tick / _TICKS) for tick in range(_TICKS + 1)):
        x = _LEFT + step * (right - _LEFT) / steps
        parts.append(f'<text x="{x:.1f}" y="{floor + 16}" text-anchor="middle">{step}</text>')
    return parts


def _level(nbytes: int, upward: float, dashes: str, label: str, *, above: bool) -> list[str]:
    y = _HEIGHT - _BOTTOM - nbytes * upward
    right = _WIDTH - _RIGHT
    return [
        (
            f'<line x1="{_LEFT}" y1="{y:.2f}" x2="{right}" y2="{y:.2f}" stroke="#c00"'
            f' stroke-dasharray="{dashes}"/>'
        ),
        (
            f'<text x="{right}" y="{y - 4 if above else y + 13:.2f}" fill="#c00"'
            f' text-anchor="end">{escape(label)}</text>'
        ),
    ]


def escape(text: str) -> str:
    """``text`` for XML: names come from strangers, and XML knows no control characters, not even
    escaped.
    """
    printable = (
        each if each.isprintable() else each.encode("unicode_escape").decode("ascii")
        for each in text
    )
    return saxutils.escape("".join(printable))


def _shortened(text: str, length: int) -> str:
    return text if len(text) <= length else text[: max(length - 1, 1)] + "…"


def _colour(number: int) -> str:
    """Neighbours in order of making get hues far from each other (steps of the golden angle)."""
    red, green, blue = colorsys.hls_to_rgb((number * 0.381966) % 1.0, 0.78, 0.6)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"
