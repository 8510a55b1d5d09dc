"""Bar of a package's files: the number of bytes in each state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ortpkg.foundations.drawing import svg
from ortpkg.foundations.drawing.scales import Scale
from ortpkg.foundations.quantities import counted, nbytes_text

_WIDTH, _BAR_TOP, _BAR_HEIGHT, _LINE_HEIGHT = 1108, 4, 26, 20
_COLUMNS = 2


class StateShare(NamedTuple):
    """Files in one state: name of the state, CSS class, number of files and bytes."""

    state: str
    kind: str
    file_count: int
    nbytes: int


def state_figure(shares: Sequence[StateShare], *, name: str, title: str) -> str:
    """Return an SVG figure of ``shares``, at least one.

    Args:
        shares: Shares in the order of the bar.
        name: Prefix of the ids; see :func:`ortpkg.foundations.drawing.svg.figure`.
        title: Title of the picture, for those who cannot see it.
    """
    total = max(sum(share.nbytes for share in shares), 1)
    across = Scale(start=0, end=_WIDTH, greatest=total)
    parts = []
    before = 0
    for share in shares:
        # Empty files should be visible, too.
        width = max(across.length(share.nbytes), 2.0)
        x = min(across.place(before), _WIDTH - width)
        kind = f"{share.kind} outlined"
        label = _text(share)
        parts.append(svg.box(x, _BAR_TOP, width, _BAR_HEIGHT, title=label, kind=kind))
        before += share.nbytes
    for number, share in enumerate(shares):
        line, column = divmod(number, _COLUMNS)
        x = column * _WIDTH / _COLUMNS
        y = _BAR_TOP + _BAR_HEIGHT + 10 + line * _LINE_HEIGHT
        parts.append(svg.box(x, y, 12, 12, kind=f"{share.kind} outlined"))
        parts.append(svg.text(x + 18, y + 11, _text(share)))
    lines = -(-len(shares) // _COLUMNS)
    return svg.figure(
        parts,
        width=_WIDTH,
        height=_BAR_TOP + _BAR_HEIGHT + 14 + lines * _LINE_HEIGHT,
        name=name,
        title=title,
        description="; ".join(map(_text, shares)),
    )


def _text(share: StateShare) -> str:
    return f"{share.state}: {counted(share.file_count, 'file')}, {nbytes_text(share.nbytes)}"
