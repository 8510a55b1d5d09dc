"""Scales, and texts of strangers in pictures."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ortpkg.foundations.drawing.scales import Scale, maxima, scale_of
from ortpkg.foundations.drawing.svg import (
    area,
    box,
    boxes,
    document,
    dot,
    figure,
    group,
    label,
    shortened,
    shown,
    text,
    visible,
)


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


def test_many_rectangles_are_one_element() -> None:
    assert boxes([(1, 2, 3, 4), (5.5, 0, 1, 0.25)], kind="bar") == (
        '<path d="M1 2h3v4h-3zM5.5 0h1v0.25h-1z" class="bar"/>'
    )


def test_texts_of_strangers_stay_texts() -> None:
    words = 'a<b> & "c"\x1b'
    parts = [text(1, 2.5, words, note=words), box(0, 0, 1, 1, title=words, fill=words)]
    picture = ET.fromstring(document(parts, width=9, height=9, title=words))
    shown = 'a<b> & "c"\\x1b'
    titles = [each.text for each in picture.iter("{http://www.w3.org/2000/svg}title")]
    (drawn,) = picture.iter("{http://www.w3.org/2000/svg}text")
    assert (titles, "".join(drawn.itertext())) == ([shown, shown], f"{shown} {shown}")
    assert (drawn.get("x"), drawn.get("y")) == ("1", "2.5")


def test_a_long_name_ends_in_an_ellipsis() -> None:
    assert [shortened("abcdef", most) for most in (6, 4, 0)] == ["abcdef", "abc…", "a…"]


def test_a_document_is_xml_and_a_figure_is_html() -> None:
    parts = [text(1, 2, "words")]
    alone = document(parts, width=9, height=5, title="title", description="what is seen")
    assert ET.fromstring(alone).tag == "{http://www.w3.org/2000/svg}svg"
    assert "<style>" in alone
    inline = figure(parts, width=9, height=5, name="one", title="title", description="what is seen")
    assert "<style" not in inline
    assert "xmlns" not in inline
    assert "style=" not in alone + inline


def test_a_figure_is_named_and_described_by_ids_of_its_own() -> None:
    root = ET.fromstring(
        figure([], width=9, height=5, name="memory-2", title="<Memory>", description="1 & 2")
    )
    assert (root.get("role"), root.get("aria-labelledby")) == (
        "img",
        "memory-2-title memory-2-desc",
    )
    assert {each.get("id"): each.text for each in root} == {
        "memory-2-title": "<Memory>",
        "memory-2-desc": "1 & 2",
    }


def test_a_figure_without_a_description_refers_to_none() -> None:
    root = ET.fromstring(figure([], width=9, height=5, name="a", title="b"))
    assert root.get("aria-labelledby") == "a-title"
    assert root.find("desc") is None


@pytest.mark.parametrize(
    ("words", "seen"),
    [
        ("a\nb\tc", r"a\nb\tc"),
        ("\x00\x1b[2J\x7f\x9b", r"\x00\x1b[2J\x7f\x9b"),
        ("\u202eevil\u2069 \u200f", r"\u202eevil\u2069 \u200f"),
        ("a\u200bb\ufeffc\xad", r"a\u200bb\ufeffc\xad"),
        ("\ud800 \U000e0041 \ue000 \u2028", r"\ud800 \U000e0041 \ue000 \u2028"),
        ("größe 大小 <&>", "größe 大小 <&>"),
    ],
)
def test_what_cannot_be_seen_becomes_visible(words: str, seen: str) -> None:
    assert visible(words) == seen


def test_shown_is_visible_and_escaped() -> None:
    assert shown("<b>\"'&\u202e") == "&lt;b&gt;&quot;&#x27;&amp;\\u202e"


def test_maxima_keep_the_greatest_of_each_part() -> None:
    assert maxima([1, 5, 2, 2, 9, 0, 3], 3) == [5, 2, 9]
    assert maxima([1, 5], 3) == [1, 5]


@given(st.lists(st.integers(0, 99), min_size=1, max_size=50), st.integers(1, 60))
def test_maxima_lose_no_peak(values: list[int], count: int) -> None:
    found = maxima(values, count)
    assert len(found) == min(count, len(values))
    assert max(found) == max(values)


def test_an_area_reaches_down_to_its_floor() -> None:
    root = ET.fromstring(area([(1, 2), (3, 4.5)], 9, kind="area"))
    assert root.get("points") == "1,9 1,2 3,4.5 3,9"


def test_elements_of_a_group_have_its_attributes() -> None:
    root = ET.fromstring(group([dot(1, 2, 3), dot(4, 5, 6)], kind="ep-1"))
    assert (root.get("class"), [each.get("r") for each in root]) == ("ep-1", ["3", "6"])


def test_a_label_that_is_too_long_is_whole_where_one_points_at_it() -> None:
    root = ET.fromstring(label(1, 2, "abcdef", 4))
    assert (root.text, root.findtext("title")) == ("abc…", "abcdef")
    assert ET.fromstring(label(1, 2, "abcd", 4)).find("title") is None
    assert len(label(1, 2, "x" * 5000, 4)) < 1100


@pytest.mark.parametrize("values", [[], [0.0], [5e-324], [0.0, 3.0], [1e-300, 1e300]])
def test_every_range_has_ticks_on_its_axis(values: list[float]) -> None:
    scale = scale_of(values, start=0, end=100, logarithmic_from=30)
    places = [scale.place(value) for value in (*values, *scale.round_ticks(3))]
    assert places
    assert all(0 <= place <= 100 for place in places)
