"""Scales, and texts of strangers in pictures."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from ortpkg.drawing.scales import Scale, scale_of
from ortpkg.drawing.svg import box, document, shortened, text


def test_an_axis_may_run_upwards() -> None:
    scale = Scale(start=500, end=100, greatest=8)
    assert [scale.place(value) for value in (0, 2, 8)] == [500, 400, 100]
    assert scale.even_ticks(4) == [0, 2, 4, 6, 8]


@pytest.mark.parametrize(
    ("values", "ticks"), [([3.0, 42.0], [0, 10, 20, 30, 40]), ([0.5, 200.0], [0.1, 1, 10, 100])]
)
def test_a_wide_range_has_powers_of_ten_and_a_narrow_one_round_steps(
    values: list[float], ticks: list[float]
) -> None:
    scale = scale_of(values, start=0, end=100, logarithmic_from=30)
    assert scale.round_ticks(5) == ticks
    assert 0 < scale.place(values[0]) < scale.place(values[1]) == pytest.approx(100)


def test_texts_of_strangers_stay_texts() -> None:
    words = 'a<b> & "c"\x1b'
    parts = [text(1, 2.5, words, note=words), box(0, 0, 1, 1, title=words, fill=words)]
    picture = ET.fromstring(document(parts, width=9, height=9, title=words, style=""))
    shown = 'a<b> & "c"\\x1b'
    titles = [each.text for each in picture.iter("{http://www.w3.org/2000/svg}title")]
    (drawn,) = picture.iter("{http://www.w3.org/2000/svg}text")
    assert (titles, "".join(drawn.itertext())) == ([shown, shown], f"{shown} {shown}")
    assert (drawn.get("x"), drawn.get("y")) == ("1", "2.5")


def test_a_long_name_ends_in_an_ellipsis() -> None:
    assert [shortened("abcdef", most) for most in (6, 4, 0)] == ["abcdef", "abc…", "a…"]
