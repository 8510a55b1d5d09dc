"""A benchmark's results as an SVG picture with a bar per candidate, drawn without any library.

A bar is as long as the median; a line goes on to the 95th percentile. Colours tell what may be used
(blue), what gave wrong outputs (hatched red), and what was not measured (a text in place of the
bar). The scale is logarithmic where the slowest is more than 30 times as slow as the fastest, and
says so.
"""

from __future__ import annotations

from collections.abc import Sequence

from ortpkg.drawing.scales import Scale, scale_of
from ortpkg.drawing.svg import box, document, hatching, line, shortened, text
from ortpkg.measuring.measured_candidates import CandidateResult, Outcome

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
_HATCH = "hatch"


def bench_svg(results: Sequence[CandidateResult], *, title: str, subtitle: str) -> str:
    """The picture of results, in their order.

    Texts from packages are escaped; the picture loads nothing.
    """
    measured = [each.times for each in results if each.times is not None]
    scale = scale_of(
        [value for times in measured for value in (times.p50_s, times.p95_s)],
        start=_LEFT,
        end=_WIDTH - _RIGHT,
        logarithmic_from=_LOGARITHMIC_FROM,
    )
    height = _TOP + _ROW * len(results) + _BOTTOM
    parts = [
        hatching(_HATCH),
        text(16, 26, title, kind="title"),
        text(16, 46, subtitle, kind="small"),
    ]
    parts += _grid(scale, height)
    for row, result in enumerate(results):
        parts += _row(result, _TOP + row * _ROW, scale)
    return document(parts, width=_WIDTH, height=height, title=title, description=subtitle)


def _grid(scale: Scale, height: int) -> list[str]:
    bottom = height - _BOTTOM + 6
    parts = []
    for tick in scale.round_ticks(_TICKS):
        x = scale.place(tick)
        parts.append(line(x, _TOP - 8, x, bottom, kind="grid"))
        parts.append(text(x, bottom + 14, _time(tick), kind="small", text_anchor="middle"))
    how = "logarithmic scale" if scale.is_logarithmic else "scale from 0"
    legend = f"time of one run: bar = median, line = 95th percentile ({how})"
    return [*parts, text(_LEFT, bottom + 32, legend, kind="small")]


def _row(result: CandidateResult, y: int, scale: Scale) -> list[str]:
    candidate = result.candidate
    label = shortened(f"{candidate.component_name}/{candidate.variant_name}", _LONGEST_LABEL)
    where = shortened(f"{candidate.ep_device.ep_name}, {candidate.ep_device.backend}", 52)
    parts = [
        text(_LEFT - 10, y + 17, label, text_anchor="end"),
        text(_LEFT - 10, y + 32, where, kind="small", text_anchor="end"),
    ]
    if result.times is None:
        reason = f"{result.outcome}: {result.reason}" if result.reason else result.outcome
        style = "flag" if result.is_held_against else "small"
        return [*parts, text(_LEFT + 6, y + 22, shortened(reason, _LONGEST_REASON), kind=style)]
    times = result.times
    far, middle = scale.place(times.p95_s), y + 18
    end = scale.place(times.p50_s)
    is_wrong = result.outcome is Outcome.WRONG_OUTPUT
    beside = max(end, far) + 8
    note = "WRONG OUTPUT" if is_wrong else _accuracy(result)
    return [
        *parts,
        _bar(y + 7, max(1.0, end - _LEFT), is_wrong=is_wrong),
        line(end, middle, far, middle, kind="whisker"),
        line(far, middle - 5, far, middle + 5, kind="whisker"),
        text(beside, y + 16, _time(times.p50_s), note=f"p95 {_time(times.p95_s)}"),
        text(beside, y + 31, note, kind="flag" if is_wrong else "small"),
    ]


def _bar(y: float, width: float, *, is_wrong: bool) -> str:
    if is_wrong:
        return box(_LEFT, y, width, 22, kind="outlined", fill=f"url(#{_HATCH})")
    return box(_LEFT, y, width, 22, kind="bar")


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
