"""Picture of how a winner was found: the number of candidates that each step leaves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ortpkg.foundations.drawing.scales import Scale
from ortpkg.foundations.drawing.svg import box, figure, line, shortened, text
from ortpkg.report.sections.winner_path import WinnerPath

_LABELS_END = 112
_COUNTS_END = 152
_BARS_START = 160
_BARS_END = 600
_WIDTH = 1108
_ROW_HEIGHT = 30
_BAR_HEIGHT = 18
_TOP = 6
_LEAST_BAR = 3
_LONGEST_NAME = 64
_LONGEST_NOTE = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """One bar: the number of candidates that are left and that fell out, and a note."""

    label: str
    left: int
    fell: int
    note: str


def path_picture(path: WinnerPath, *, name: str, title: str) -> str:
    """Return a picture with a bar for each step, as long as what it leaves, then what fell out."""
    rows = list(_rows(path))
    scale = Scale(start=_BARS_START, end=_BARS_END, greatest=float(max(path.judged_count, 1)))
    parts = [part for index, row in enumerate(rows) for part in _drawn(index, row, scale)]
    bottom = _TOP + len(rows) * _ROW_HEIGHT
    if path.winner:
        parts.append(line(_BARS_START, bottom - 4, _BARS_START, bottom + 4, kind="axis"))
        parts.append(
            text(
                _BARS_START, bottom + 20, f"✔ {shortened(path.winner, _LONGEST_NAME)}", kind="head"
            )
        )
    return figure(
        parts,
        width=_WIDTH,
        height=bottom + (30 if path.winner else 0),
        name=name,
        title=title,
        description=_description(path),
    )


def _rows(path: WinnerPath) -> Iterator[_Row]:
    yield _Row(label="judged", left=path.judged_count, fell=0, note="variants on EP devices")
    codes = ", ".join(f"{rejection.count} {rejection.code}" for rejection in path.rejections)
    rejected = path.judged_count - path.eligible_count
    yield _Row(
        label="can run",
        left=path.eligible_count,
        fell=rejected,
        note=f"{rejected} rejected: {codes}" if rejected else "",
    )
    for step in path.steps:
        yield _Row(
            label=step.criterion,
            left=step.remaining_count,
            fell=step.fallen_count,
            note=(
                f"{step.winner}; {step.fallen_count} fell out: {step.losers}"
                if step.fallen_count
                else f"all: {step.winner}"
            ),
        )


def _drawn(index: int, row: _Row, scale: Scale) -> Iterator[str]:
    y = _TOP + index * _ROW_HEIGHT
    baseline = y + _BAR_HEIGHT - 4
    yield text(_LABELS_END, baseline, row.label, text_anchor="end")
    yield text(_COUNTS_END, baseline, str(row.left), kind="head", text_anchor="end")
    end = float(_BARS_START)
    for count, kind in ((row.left, "kept"), (row.fell, "fallen")):
        if count:
            length = max(scale.length(count), _LEAST_BAR)
            yield box(end, y, length, _BAR_HEIGHT, kind=kind)
            end += length
    if row.note:
        yield text(end + 8, baseline, shortened(row.note, _LONGEST_NOTE), kind="small")


def _description(path: WinnerPath) -> str:
    rows = "; ".join(f"{row.label}: {row.left} left, {row.fell} fell out" for row in _rows(path))
    return f"{rows}. Winner: {path.winner or 'none'}."
