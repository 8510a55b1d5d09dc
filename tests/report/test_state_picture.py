"""The bar of states: each has its part, an empty one is seen, and none leaves the picture."""

from __future__ import annotations

import re

from ortpkg.report.state_picture import StateShare, state_figure


def _bars(*nbytes: int) -> list[tuple[float, float]]:
    """(start, width) of each state's part of the bar."""
    shares = [StateShare(f"s{number}", "good", 1, size) for number, size in enumerate(nbytes)]
    drawn = state_figure(shares, name="n", title="t")
    parts = re.findall(r'<rect x="([\d.]+)" y="4" width="([\d.]+)"', drawn)
    return [(float(start), float(width)) for start, width in parts]


def test_the_states_lie_side_by_side_as_long_as_they_are_large() -> None:
    assert _bars(100, 300) == [(0, 277), (277, 831)]


def test_a_state_without_bytes_is_seen_and_stays_in_the_picture() -> None:
    assert _bars(100, 0) == [(0, 1108), (1106, 2)]
