"""The results of a benchmark as one SVG picture: a bar per candidate, drawn by hand, readable
without a program.

A bar is as long as the median; a line goes on to the 95th percentile. Colours tell what may be used
(blue), what gave wrong outputs (hatched red), and what was not measured (a text in place of the
bar). The scale is logarithmic where the slowest is more than 30 times as slow as the fastest, and
says so.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from html import escape

from ortpkg.benchmarking.measure import CandidateResult, Outcome

_WIDTH = 960
_LEFT = 330
_RIGHT = 190
_TOP = 64
_ROW = 44
_BOTTOM = 46
_LOGARITHMIC_FROM = 30
_TICKS = 5
_LONGEST_LABEL = 44
_LONGEST_REASON = 64
_STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1c2733; }
  .title { font-size: 17px; font-weight: 600; }
  .small { font-size: 11px; fill: #5b6b7b; }
  .bar { fill: #2f6fb4; } .wrong { fill: url(#hatch); stroke: #b3261e; }
  .flag { fill: #b3261e; font-weight: 600; }
  .p95 { stroke: #1c2733; stroke-width: 1.5; } .grid { stroke: #dde3e9; }
"""

_HATCH = """<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse"
 patternTransform="rotate(45)">
<rect width="6" height="6" fill="#fbe9e7"/><rect width="2" height="6" fill="#b3261e"/>
</pattern></defs>"""


def bench_svg(results: Sequence[CandidateResult], *, title: str, subtitle: str) -> str:
    """The picture of results, in their order.

    Texts from packages are escaped; the picture loads nothing.
    """
    scale = _Scale([result for result in results if result.times is not None])
    height = _TOP + _ROW * len(results) + _BOTTOM
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img"'
            f' width="{_WIDTH}">'
        ),
        f"<title>{_text(title)}</title>",
        f"<style>{_STYLE}</style>",
        _HATCH,
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text class="title" x="16" y="26">{_text(title)}</text>',
        f'<text class="small" x="16" y="46">{_text(subtitle)}</text>',
        *scale.grid(height),
    ]
    for row, result in enumerate(results):
        parts += _row(result, _TOP + row * _ROW, scale)
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


class _Scale:
    """From seconds to places on the horizontal axis."""

    def __init__(self, measured: Sequence[CandidateResult]) -> None:
        times = [
            value
            for each in measured
            if each.times
            for value in (each.times.p50_s, each.times.p95_s)
        ]
        self.greatest = max(times, default=1.0) or 1.0
        least = min(times, default=1.0) or self.greatest
        self.is_logarithmic = self.greatest / least > _LOGARITHMIC_FROM
        #: Where a logarithmic axis begins: below the least value, so that every bar has a length.
        self.origin = 10 ** math.floor(math.log10(least) - 0.3) if self.is_logarithmic else 0.0

    def x(self, value_s: float) -> float:
        if not self.is_logarithmic:
            share = value_s / self.greatest
        else:
            span = math.log10(self.greatest) - math.log10(self.origin)
            share = (math.log10(max(value_s, self.origin)) - math.log10(self.origin)) / span
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def ticks(self) -> list[float]:
        if self.is_logarithmic:
            first, last = math.ceil(math.log10(self.origin)), math.floor(math.log10(self.greatest))
            return [10.0**power for power in range(first, last + 1)]
        rough = self.greatest / _TICKS
        power = 10 ** math.floor(math.log10(rough))
        step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
        return [step * number for number in range(int(self.greatest / step) + 1)]

    def grid(self, height: int) -> list[str]:
        bottom = height - _BOTTOM + 6
        parts = []
        for tick in self.ticks():
            x = self.x(tick)
            parts.append(
                f'<line class="grid" x1="{x:.1f}" y1="{_TOP - 8}" x2="{x:.1f}" y2="{bottom}"/>'
            )
            parts.append(
                f'<text class="small" x="{x:.1f}" y="{bottom + 14}"'
                f' text-anchor="middle">{_time(tick)}</text>'
            )
        kind = "logarithmic scale" if self.is_logarithmic else "scale from 0"
        parts.append(
            f'<text class="small" x="{_LEFT}" y="{bottom + 32}">time of one run: bar = median, line'
            f" = 95th percentile ({kind})</text>"
        )
        return parts


def _row(result: CandidateResult, y: int, scale: _Scale) -> list[str]:
    candidate = result.candidate
    label = f"{candidate.component_name}/{candidate.variant_name}"
    where = f"{candidate.ep_device.ep_name}, {candidate.ep_device.backend}"
    parts = [
        (
            f'<text x="{_LEFT - 10}" y="{y + 17}"'
            f' text-anchor="end">{_text(_short(label, _LONGEST_LABEL))}</text>'
        ),
        (
            f'<text class="small" x="{_LEFT - 10}" y="{y + 32}"'
            f' text-anchor="end">{_text(_short(where, 52))}</text>'
        ),
    ]
    if result.times is None:
        reason = _short(
            f"{result.outcome}: {result.reason}" if result.reason else result.outcome,
            _LONGEST_REASON,
        )
        style = "flag" if result.is_held_against else "small"
        return [
            *parts,
            f'<text class="{style}" x="{_LEFT + 6}" y="{y + 22}">{_text(reason)}</text>',
        ]
    times = result.times
    end, far = scale.x(times.p50_s), scale.x(times.p95_s)
    is_wrong = result.outcome is Outcome.WRONG_OUTPUT
    middle = y + 18
    kind = "wrong" if is_wrong else "bar"
    width = max(1.0, end - _LEFT)
    label = f'{_time(times.p50_s)} <tspan class="small">p95 {_time(times.p95_s)}</tspan>'
    parts += [
        f'<rect class="{kind}" x="{_LEFT}" y="{y + 7}" width="{width:.1f}" height="22"/>',
        f'<line class="p95" x1="{end:.1f}" y1="{middle}" x2="{far:.1f}" y2="{middle}"/>',
        f'<line class="p95" x1="{far:.1f}" y1="{middle - 5}" x2="{far:.1f}" y2="{middle + 5}"/>',
        f'<text x="{max(end, far) + 8:.1f}" y="{y + 16}">{label}</text>',
    ]
    note = "WRONG OUTPUT" if is_wrong else _accuracy(result)
    style = "flag" if is_wrong else "small"
    return [
        *parts,
        f'<text class="{style}" x="{max(end, far) + 8:.1f}" y="{y + 31}">{_text(note)}</text>',
    ]


def _accuracy(result: CandidateResult) -> str:
    found = result.distance
    if found is None:
        return "outputs not compared"
    verdict = {True: "accurate", False: "WRONG", None: "no tolerance stated"}[found.is_within]
    return f"{verdict}, off by {found.max_abs_error:.2g}"


def _time(value_s: float) -> str:
    for factor, unit in ((1e6, "µs"), (1e3, "ms")):
        if value_s * factor < 1000:
            return f"{value_s * factor:.3g} {unit}"
    return f"{value_s:.3g} s"


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"


def _text(text: str) -> str:
    """``text`` for XML: control characters, which XML forbids, and what only steers a display
    become "?".
    """
    return escape(
        "".join("?" if unicodedata.category(each).startswith("C") else each for each in text)
    )
