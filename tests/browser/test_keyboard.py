"""The page by keyboard alone."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.browser.subjects import report_of
from tests.browser.watched_pages import WatchedPages

pytestmark = pytest.mark.browser

_FOCUSED = """
() => {
  const each = document.activeElement;
  const style = getComputedStyle(each);
  const box = each.getBoundingClientRect();
  const shows = (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2)
    || style.boxShadow !== "none";
  return {
    name: `${each.localName}#${each.id}.${each.getAttribute("class") || ""}`,
    isPage: each === document.body,
    shows,
    seen: box.bottom > 0 && box.top < innerHeight && box.width > 0,
    order: [...document.querySelectorAll("*")].indexOf(each),
  };
}
"""


def _tabbed(page: Page, most: int = 400) -> list[dict[str, object]]:
    """What gets the focus, one after the other, until the page's end."""
    found: list[dict[str, object]] = []
    for _ in range(most):
        page.keyboard.press("Tab")
        focused = page.evaluate(_FOCUSED)
        if focused["isPage"]:
            return found
        found.append(focused)
    pytest.fail(f"after {most} times Tab the end is not reached: {found[-3:]}")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("subject", ["digits", "tinychar"])
def test_tab_goes_through_the_page_in_order_and_shows_where(
    open_report: WatchedPages, subject: str, dark: bool
) -> None:
    page = open_report(report_of(subject), dark=dark, reduced_motion=True)
    tabbed = _tabbed(page)
    assert [each["name"] for each in tabbed if not each["shows"]] == []
    assert [each["name"] for each in tabbed if not each["seen"]] == []
    orders = [each["order"] for each in tabbed]
    assert orders == sorted(orders, key=str) or orders == sorted(map(int, map(str, orders)))


def test_the_first_stop_skips_to_the_content(open_report: WatchedPages) -> None:
    page = open_report(report_of("digits"), reduced_motion=True)
    page.keyboard.press("Tab")
    skip = page.locator(":focus")
    assert skip.inner_text() == "Skip to the content"
    assert (skip.bounding_box() or {"x": -1})["x"] >= 0
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('main') !== null")


def test_tables_open_by_keyboard(open_report: WatchedPages) -> None:
    page = open_report(report_of("digits"))
    summaries = page.locator("main details > summary:visible")
    for number in range(summaries.count()):
        summaries.nth(number).focus()
        page.keyboard.press("Enter")
        assert summaries.nth(number).locator("xpath=..").get_attribute("open") is not None
        page.keyboard.press("Space")
        assert summaries.nth(number).locator("xpath=..").get_attribute("open") is None


def test_colours_turn_by_keyboard(open_report: WatchedPages) -> None:
    page = open_report(report_of("digits"))
    page.get_by_role("button", name="Dark colours").focus()
    page.keyboard.press("Space")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.keyboard.press("Enter")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"


def test_what_is_wide_scrolls_by_keyboard(open_report: WatchedPages) -> None:
    page = open_report(report_of("digits"), width=360, reduced_motion=True)
    regions = page.locator("main .scrolls:visible")
    moved = 0
    for number in range(regions.count()):
        region = regions.nth(number)
        if region.evaluate("(each) => each.scrollWidth > each.clientWidth + 1"):
            region.focus()
            page.keyboard.press("ArrowRight")
            page.wait_for_function("(each) => each.scrollLeft > 0", arg=region.element_handle())
            moved += 1
    assert moved
