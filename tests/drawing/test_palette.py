"""The theme: readable in both of its modes, one for pictures and pages."""

from __future__ import annotations

import itertools
import re

import pytest

from ortpkg.foundations.drawing.palette import (
    FILL_COUNT,
    THEME,
    document_style,
    fill_kind,
    stylesheet,
)

_SOFT = ("good-soft", "warn-soft", "bad-soft")
_FILLS = tuple(f"ep-{number}" for number in range(FILL_COUNT))
_READ_ON = {
    "ink": ("ground", "panel", *_SOFT, *_FILLS),
    "faint": ("ground", "panel", *_SOFT),
    "accent": ("ground", "panel"),
    "good": ("ground", "panel", "good-soft"),
    "warn": ("ground", "panel", "warn-soft"),
    "bad": ("ground", "panel", "bad-soft"),
}


def _luminance(colour: str) -> float:
    """Relative luminance, WCAG 2.2."""
    parts = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: str, other: str) -> float:
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def test_contrast_is_that_of_black_on_white() -> None:
    assert _contrast("#000000", "#ffffff") == pytest.approx(21)


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(
    ("words", "ground"), [(words, ground) for words in _READ_ON for ground in _READ_ON[words]]
)
def test_texts_have_the_contrast_that_wcag_asks_for(mode: int, words: str, ground: str) -> None:
    assert _contrast(THEME[words][mode], THEME[ground][mode]) >= 4.5


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
def test_no_two_fills_look_the_same(mode: int) -> None:
    def parts(colour: str) -> list[int]:
        return [int(colour[place : place + 2], 16) for place in (1, 3, 5)]

    for one, other in itertools.combinations(_FILLS, 2):
        away = zip(parts(THEME[one][mode]), parts(THEME[other][mode]), strict=True)
        assert sum(abs(a - b) for a, b in away) >= 40, (one, other)


def test_the_stylesheet_uses_what_the_theme_has_and_nothing_else() -> None:
    used = set(re.findall(r"var\(--([a-z0-9-]+)\)", stylesheet()))
    assert used <= set(THEME)
    for name in THEME:
        assert stylesheet().count(f"--{name}: {THEME[name].dark};") == 2  # the system's, a button's


def test_a_chosen_theme_counts_more_than_the_systems_and_paper_is_light() -> None:
    style = stylesheet()
    assert "@media screen and (prefers-color-scheme: dark) { :root:not([data-theme=light])" in style
    assert "@media screen { :root[data-theme=dark]" in style
    assert "@media print { :root { --ground: #ffffff; } }" in style


def test_a_document_names_each_colour_plainly_before_it_names_the_property() -> None:
    style = document_style()
    assert f"fill: {THEME['ink'].light}; fill: var(--ink);" in style
    assert style.count("var(") == stylesheet().count("var(")
    plain = re.findall(r"[a-z-]+: #[0-9a-f]{6}; [a-z-]+: var\(", style)
    assert len(plain) == style.count("var(")


def test_the_kinds_of_fills_begin_anew_after_the_last() -> None:
    assert [fill_kind(number) for number in (0, 9, 10, 23)] == ["ep-0", "ep-9", "ep-0", "ep-3"]
