"""The page on paper."""

from __future__ import annotations

import re

import pytest

from tests.browser.layout import open_all, page_overflow
from tests.browser.subjects import report_of
from tests.browser.watched_pages import WatchedPages

pytestmark = pytest.mark.browser

_CLOSED = "document.querySelectorAll('details:not([open])').length"


@pytest.mark.parametrize("subject", ["digits", "tinychar", "bert"])
def test_everything_is_open_on_paper_and_closed_again(
    open_report: WatchedPages, subject: str
) -> None:
    page = open_report(report_of(subject), dark=True)
    closed = page.evaluate(_CLOSED)
    page.evaluate(
        f"window.addEventListener('beforeprint', () => {{ window.closedOnPaper = {_CLOSED}; }})"
    )
    sheets = page.pdf(format="A4")
    assert page.evaluate("window.closedOnPaper") == 0
    assert page.evaluate(_CLOSED) == closed
    assert sheets.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", sheets)) >= 1


def test_graphs_are_whole_on_paper_though_nobody_saw_them(open_report: WatchedPages) -> None:
    page = open_report(report_of("tinychar"))
    page.wait_for_function("() => !document.querySelector('.graph-view:not(.is-drawn)')")
    assert page.evaluate("scrollY") == 0
    seen = page.locator("svg.graph-picture > g").first.get_attribute("transform")
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    for graph in page.locator("svg.graph-picture").all():
        assert graph.evaluate(
            "(svg) => { const room = svg.getBoundingClientRect();"
            " const drawn = svg.firstElementChild.getBoundingClientRect();"
            " return drawn.width > 50 && drawn.left >= room.left - 2 && drawn.right <= room.right + 2"
            " && drawn.top >= room.top - 2 && drawn.bottom <= room.bottom + 2; }"
        )
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.locator("svg.graph-picture > g").first.get_attribute("transform") == seen


@pytest.mark.parametrize("subject", ["digits", "tinychar", "bert"])
def test_nothing_is_cut_off_on_paper(open_report: WatchedPages, subject: str) -> None:
    page = open_report(report_of(subject), width=718, dark=True)  # A4 between margins of 1 cm
    page.emulate_media(media="print")
    open_all(page)
    assert page_overflow(page) == []
    hidden = page.evaluate(
        "() => [...document.querySelectorAll('main table, main svg.picture')].filter((each) => {"
        " for (let at = each.parentElement; at; at = at.parentElement) {"
        "   if (getComputedStyle(at).overflowX !== 'visible' && at.scrollWidth > at.clientWidth + 1)"
        "     return true; }"
        " return false; }).map((each) => each.localName + ' in ' + each.closest('section').id)"
    )
    assert hidden == []


def test_paper_is_white_and_has_nothing_to_press(open_report: WatchedPages) -> None:
    page = open_report(report_of("digits"), dark=True)
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("button:not(.verdict):visible").count() == 0
    sticky = page.evaluate(
        "() => [...document.querySelectorAll('body *')].filter((each) =>"
        " each.checkVisibility() && ['fixed', 'sticky'].includes(getComputedStyle(each).position))"
        ".map((each) => each.className)"
    )
    assert sticky == []
