"""The page as a whole: sections in order, pictures that show something, colours that turn."""

from __future__ import annotations

import struct

import pytest

from ortpkg.report.page import SECTIONS
from tests.browser.layout import (
    disorder,
    is_of_one_colour,
    kept_screenshot,
    open_all,
    page_overflow,
    show_graphs,
    small_targets,
)
from tests.browser.subjects import report_of
from tests.browser.watched_pages import WatchedPages

pytestmark = pytest.mark.browser
SUBJECTS = ("digits", "tinychar", "bert", "hostile", "long", "many")


def test_every_section_has_a_heading_and_a_card_that_leads_to_it(
    open_report: WatchedPages,
) -> None:
    page = open_report(report_of("digits"))
    cards = page.locator("nav .card a")
    assert cards.count() == page.locator("main > section").count() >= 2
    for number in range(cards.count()):
        cards.nth(number).click()
        section = page.locator(cards.nth(number).get_attribute("href") or "")
        heading = section.get_by_role("heading", level=2)
        assert heading.inner_text() == cards.nth(number).locator(".card-title").inner_text()
        page.wait_for_function(
            "(each) => { const box = each.getBoundingClientRect();"
            " return box.top >= 0 && box.bottom <= innerHeight; }",
            arg=heading.element_handle(),
        )


#: Where a section shows its picture: a figure of SVG, a view of a graph, a matrix, or, of findings, a
#: table of them.
PICTURES = {
    "package": "svg[role=img]",
    "selection": "table.matrix",
    "graphs": "svg.graph-picture",
    "order": "svg[role=img]",
    "memory": "svg[role=img]",
    "bench": "svg[role=img]",
    "integrity": "svg[role=img]",
    "findings": "table",
}


def test_every_section_shows_its_picture(open_report: WatchedPages) -> None:
    pages = [open_report(report_of(subject)) for subject in ("digits", "tinychar", "measured")]
    for page in pages:
        show_graphs(page)
        ids = page.locator("main > section").evaluate_all("(all) => all.map((each) => each.id)")
        assert ids == [kind.id for kind in SECTIONS] == list(PICTURES)
    for section, picture in PICTURES.items():
        places = [page.locator(f"#{section} {picture}:visible") for page in pages]
        shown = [place.first for place in places if place.count()]
        assert shown, section
        assert not is_of_one_colour(shown[0]), section


@pytest.mark.parametrize("width", [360, 800, 1200, 2000])
@pytest.mark.parametrize("subject", SUBJECTS)
def test_parts_lie_below_each_other_within_the_window(
    open_report: WatchedPages, subject: str, width: int
) -> None:
    page = open_report(report_of(subject), width=width)
    assert page_overflow(page) == []
    assert disorder(page) == []


@pytest.mark.parametrize("width", [360, 1200])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("subject", ["digits", "tinychar", "bert", "hostile"])
def test_a_picture_of_the_page_is_as_large_as_the_page(
    open_report: WatchedPages, subject: str, dark: bool, width: int
) -> None:
    page = open_report(report_of(subject), width=width, dark=dark)
    show_graphs(page)
    name = f"{subject}-{width}-{'dark' if dark else 'light'}"
    seen = struct.unpack(">II", kept_screenshot(page, name)[16:24])
    height = page.evaluate("document.scrollingElement.scrollHeight")
    assert seen == (width, height)
    assert height < 16_000


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("subject", ["digits", "tinychar", "bert"])
def test_every_picture_shows_something(open_report: WatchedPages, subject: str, dark: bool) -> None:
    page = open_report(report_of(subject), dark=dark)
    assert show_graphs(page)
    pictures = page.locator("main svg.picture:visible:not([aria-hidden])")
    assert pictures.count() >= 4
    for number in range(pictures.count()):
        assert not is_of_one_colour(pictures.nth(number)), number


def test_what_a_finger_has_to_hit_is_large_enough(open_report: WatchedPages) -> None:
    for subject in ("digits", "tinychar"):
        page = open_report(report_of(subject), width=360, height=740, touch=True)
        show_graphs(page)
        assert small_targets(page) == []


def test_tables_scroll_by_themselves(open_report: WatchedPages) -> None:
    page = open_report(report_of("digits"), width=360)
    open_all(page)
    assert page_overflow(page) == []
    wide = page.locator("main table").evaluate_all(
        "(tables) => tables.filter((each) => each.offsetWidth > each.parentElement.clientWidth)"
        ".map((each) => [each.parentElement.classList.contains('scrolls'), each.parentElement.tabIndex,"
        " each.parentElement.getAttribute('aria-label') !== ''])"
    )
    assert wide
    assert {tuple(each) for each in wide} == {(True, 0, True)}


def test_the_system_and_the_button_choose_the_colours(open_report: WatchedPages) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    light = open_report(report_of("digits"))
    dark = open_report(report_of("digits"), dark=True)
    colours = {name: page.evaluate(ground) for name, page in (("light", light), ("dark", dark))}
    assert colours["light"] != colours["dark"]
    light.get_by_role("button", name="Dark colours").click()
    assert light.evaluate(ground) == colours["dark"]
    dark.get_by_role("button", name="Light colours").click()
    assert dark.evaluate(ground) == colours["light"]
    dark.get_by_role("button", name="Dark colours").click()
    assert dark.evaluate(ground) == colours["dark"]
    light.emulate_media(color_scheme="dark")
    assert light.get_by_role("button", name="Light colours").is_visible()


def test_nothing_moves_for_those_who_asked_for_that(open_report: WatchedPages) -> None:
    page = open_report(report_of("digits"), reduced_motion=True)
    moving = page.evaluate(
        "() => [...document.querySelectorAll('*')].filter((each) => {"
        " const style = getComputedStyle(each);"
        " return style.scrollBehavior === 'smooth' || parseFloat(style.transitionDuration) > 0.01"
        " || style.animationName !== 'none'; }).map((each) => each.localName + each.className)"
    )
    assert moving == []
