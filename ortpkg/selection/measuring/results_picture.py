"""Picture of measurements: a row for each, with its time, error and memory side by side.

A bar is as long as the median; the line over it from the lowest to the highest median of a round
shows the uncertainty, and a dot marks the 95th percentile. Rows with wrong outputs are hatched;
rows that were not measured show the reason. An axis is logarithmic, and says so, if the greatest
value is more than 30 times the least.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ortpkg.foundations.drawing import svg
from ortpkg.foundations.drawing.scales import Scale, scale_of
from ortpkg.foundations.ep_names import short_ep_names
from ortpkg.foundations.quantities import nbytes_text
from ortpkg.selection.measuring.shown_results import ShownResult

_LABELS, _TIME, _ERROR, _MEMORY, _GAP, _MARGIN = 230, 380, 180, 170, 30, 16
_WIDTH = _MARGIN + _LABELS + _TIME + _ERROR + _MEMORY + 2 * _GAP + _MARGIN
_TITLE_HEIGHT, _HEAD_HEIGHT, _ROW_HEIGHT, _FOOT_HEIGHT = 56, 26, 48, 46
_BAR_HEIGHT = 16
_LOGARITHMIC_FROM = 30
_CHARACTER_WIDTH, _SMALL_CHARACTER_WIDTH = 7.4, 6.4
_LONGEST_TITLE = 110
_MOST_ROWS = 200
_MOST_NAMED, _LONGEST_DESCRIPTION = 5, 1_000


def results_svg(results: Sequence[ShownResult], *, title: str, subtitle: str) -> str:
    """Return an SVG document of ``results``, in their order.

    Texts from packages are escaped; the picture loads nothing.
    """
    heading = [
        svg.text(_MARGIN, 26, svg.shortened(title, _LONGEST_TITLE), kind="title"),
        svg.text(_MARGIN, 46, svg.shortened(subtitle, _LONGEST_TITLE), kind="small"),
    ]
    return svg.document(
        [*heading, *_parts(results, _TITLE_HEIGHT, "hatching")],
        width=_WIDTH,
        height=_TITLE_HEIGHT + _height(results),
        title=title,
        description=f"{subtitle}. {_description(results)}",
    )


def results_figure(results: Sequence[ShownResult], title: str, *, name: str) -> str:
    """Return the picture for a page, without a heading.

    Args:
        results: the results, in their order.
        title: description of the picture for readers who cannot see it.
        name: prefix of the ids in it; see :func:`ortpkg.foundations.drawing.svg.figure`.
    """
    return svg.figure(
        _parts(results, 0, f"{name}-hatching"),
        width=_WIDTH,
        height=_height(results),
        name=name,
        title=title,
        description=_description(results),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Axes:
    """The scales of the three columns, and the id of the hatching for wrong results."""

    time: Scale
    error: Scale
    memory: Scale
    hatching: str


def _height(results: Sequence[ShownResult]) -> int:
    return _HEAD_HEIGHT + _ROW_HEIGHT * min(len(results), _MOST_ROWS) + _FOOT_HEIGHT


def _description(results: Sequence[ShownResult]) -> str:
    """Return the number of measured results, and the fastest accurate one of each component."""
    measured = [result for result in results if result.p50_s is not None]
    fastest: dict[str, tuple[float, ShownResult]] = {}
    for result in measured:
        if result.p50_s is not None and not result.is_wrong:
            best_so_far = fastest.setdefault(result.component_name, (result.p50_s, result))
            if result.p50_s < best_so_far[0]:
                fastest[result.component_name] = (result.p50_s, result)
    texts = [f"Time, error and memory of {len(measured)} of {len(results)} candidates."]
    texts += [
        f"The fastest of {component} is {best.variant_name} on {_ep_text(best)}:"
        f" {_time_text(time_s)}."
        for component, (time_s, best) in list(fastest.items())[:_MOST_NAMED]
    ]
    return svg.shortened(" ".join(texts), _LONGEST_DESCRIPTION)


def _parts(results: Sequence[ShownResult], top: int, hatching: str) -> Iterator[str]:
    rows = results[:_MOST_ROWS]
    axes = _axes(rows, hatching)
    floor = top + _HEAD_HEIGHT + _ROW_HEIGHT * len(rows)
    yield svg.hatching(hatching)
    for scale, heading, tick_text in (
        (axes.time, "time of one run", _time_text),
        (axes.error, "largest error", _error_text),
        (axes.memory, "memory", _memory_text),
    ):
        yield from _column(scale, heading, tick_text, top, floor)
    for number, result in enumerate(rows):
        y = top + _HEAD_HEIGHT + number * _ROW_HEIGHT
        yield svg.line(_MARGIN, y, _WIDTH - _MARGIN, y, kind="grid")
        yield from _row(result, y, axes)
    legend = "bar: median; line: from the lowest to the highest median of a round; dot: p95"
    if left_out := len(results) - len(rows):
        legend += f"; {left_out} more are left out"
    yield svg.text(_MARGIN, floor + 38, legend, kind="small")


def _axes(rows: Sequence[ShownResult], hatching: str) -> _Axes:
    times = [
        value
        for row in rows
        for value in (row.p50_s, row.p95_s, row.lowest_s, row.highest_s)
        if value is not None
    ]
    errors = [finite_error for row in rows if (finite_error := _finite_error(row))]
    memories = [float(row.peak_memory_nbytes or 0) for row in rows]
    starts = [_MARGIN + _LABELS]
    for width in (_TIME, _ERROR):
        starts.append(starts[-1] + width + _GAP)
    time, error, memory = (
        scale_of(values, start=start, end=start + width, logarithmic_from=_LOGARITHMIC_FROM)
        for values, start, width in zip(
            (times, errors, memories), starts, (_TIME, _ERROR, _MEMORY), strict=True
        )
    )
    return _Axes(time=time, error=error, memory=memory, hatching=hatching)


def _column(
    scale: Scale, heading: str, tick_text: Callable[[float], str], top: int, floor: int
) -> Iterator[str]:
    how = "logarithmic" if scale.is_logarithmic else ""
    yield svg.text(scale.start, top + 16, heading, note=how, kind="head")
    height = floor - top - _HEAD_HEIGHT
    yield svg.box(scale.start, top + _HEAD_HEIGHT, scale.end - scale.start, height, kind="panel")
    ticks = scale.round_ticks(3)
    for tick in ticks[:: -(-len(ticks) // 5)]:
        x = scale.place(tick)
        yield svg.line(x, top + _HEAD_HEIGHT, x, floor, kind="grid")
        yield svg.text(x, floor + 14, tick_text(tick), kind="small", text_anchor="middle")


def _row(result: ShownResult, y: float, axes: _Axes) -> Iterator[str]:
    small = int(_LABELS / _SMALL_CHARACTER_WIDTH)
    yield svg.label(_MARGIN, y + 20, _name(result), int(_LABELS / _CHARACTER_WIDTH))
    yield svg.label(_MARGIN, y + 36, _ep_text(result), small, kind="small")
    if result.p50_s is None:
        room = int((_WIDTH - _MARGIN - axes.time.start) / _CHARACTER_WIDTH)
        kind = "flag" if result.is_held_against else "small"
        text = result.problem or "not measured"
        yield svg.label(axes.time.start + 6, y + 28, text, room, kind=kind)
        return
    yield from _time_cell(result, result.p50_s, y, axes)
    yield from _error_cell(result, y, axes.error)
    yield from _memory_cell(result, y, axes.memory)


def _time_cell(result: ShownResult, p50_s: float, y: float, axes: _Axes) -> Iterator[str]:
    scale, middle = axes.time, y + 8 + _BAR_HEIGHT / 2
    yield _bar(p50_s, y, scale, hatching=axes.hatching if result.is_wrong else "")
    text = _time_text(p50_s)
    if result.lowest_s is not None and result.highest_s is not None:
        low, high = scale.place(result.lowest_s), scale.place(result.highest_s)
        yield svg.line(low, middle, high, middle, kind="whisker")
        for x in (low, high):
            yield svg.line(x, middle - 5, x, middle + 5, kind="whisker")
        text += f", rounds {_time_text(result.lowest_s)} to {_time_text(result.highest_s)}"
    if result.p95_s is not None:
        yield svg.dot(scale.place(result.p95_s), middle, 3, kind="dot")
        text += f", p95 {_time_text(result.p95_s)}"
    yield svg.text(scale.start + 4, y + 39, text, kind="small")


def _error_cell(result: ShownResult, y: float, scale: Scale) -> Iterator[str]:
    error = _finite_error(result)
    if error is not None:
        kind = {True: "good", False: "mark", None: "dot"}[result.is_accurate]
        x, middle = scale.place(error), y + 8 + _BAR_HEIGHT / 2
        yield svg.line(scale.start, middle, x, middle, kind="axis")
        yield svg.dot(x, middle, 4.5, kind=kind)
    kind = "small flag" if result.is_wrong else "small"
    yield svg.text(scale.start + 4, y + 39, _accuracy_text(result), kind=kind)


def _memory_cell(result: ShownResult, y: float, scale: Scale) -> Iterator[str]:
    nbytes = result.peak_memory_nbytes
    if nbytes is not None:
        yield _bar(nbytes, y, scale)
    text = "unknown" if nbytes is None else nbytes_text(nbytes)
    yield svg.text(scale.start + 4, y + 39, text, kind="small")


def _bar(value: float, y: float, scale: Scale, *, hatching: str = "") -> str:
    width = max(1.0, scale.length(value))
    if hatching:
        fill = f"url(#{hatching})"
        return svg.box(scale.start, y + 8, width, _BAR_HEIGHT, kind="outlined", fill=fill)
    return svg.box(scale.start, y + 8, width, _BAR_HEIGHT, kind="bar")


def _name(result: ShownResult) -> str:
    return f"{result.component_name}/{result.variant_name}"


def _ep_text(result: ShownResult) -> str:
    return f"{short_ep_names(result.ep_name)}, {result.backend}"


def _finite_error(result: ShownResult) -> float | None:
    """Return the error if it can be drawn, else None."""
    error = result.max_abs_error
    return error if error is not None and math.isfinite(error) else None


def _accuracy_text(result: ShownResult) -> str:
    error = result.max_abs_error
    off = "" if error is None else f"off by {_error_text(error)}"
    if result.is_accurate is None:
        return f"{off}, no tolerance" if off else "not compared"
    verdict = "accurate" if result.is_accurate else "WRONG OUTPUT"
    return f"{verdict}, {off}" if off else verdict


def _error_text(error: float) -> str:
    return f"{error:.2g}" if math.isfinite(error) else "infinite"


def _memory_text(nbytes: float) -> str:
    return nbytes_text(round(nbytes)).replace(".0 ", " ")


def _time_text(value_s: float) -> str:
    if not value_s:
        return "0"
    for factor, unit in ((1e6, "µs"), (1e3, "ms")):
        if value_s * factor < 1000:
            return f"{value_s * factor:.3g} {unit}"
    return f"{value_s:.3g} s"
