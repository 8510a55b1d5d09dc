"""Names of strangers, however they are written and however many there are, stay texts."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.browser.layout import page_overflow
from tests.browser.subjects import HOSTILE_NAME, report_of
from tests.browser.watched_pages import WatchedPages

pytestmark = pytest.mark.browser

_COUNT_BY_TAG = """
() => {
  const counts = {};
  for (const each of document.querySelectorAll("*")) {
    counts[each.localName] = (counts[each.localName] || 0) + 1;
  }
  return counts;
}
"""


@pytest.mark.parametrize("javascript", [True, False], ids=["scripts", "no scripts"])
def test_markup_in_names_makes_no_element(open_report: WatchedPages, javascript: bool) -> None:
    counts = _counts(open_report(report_of("hostile"), javascript=javascript))
    plain = _counts(open_report(report_of("digits"), javascript=javascript))
    assert not counts.keys() & {"img", "iframe", "object", "embed", "base", "form", "link"}
    for tag in ("script", "style", "meta", "title"):
        # Pictures have titles of their own, in SVG.
        assert counts[tag] == plain[tag] or tag == "title"
    assert "onload" not in _attributes(open_report(report_of("hostile"), javascript=javascript))


def test_names_are_shown_letter_by_letter(open_report: WatchedPages) -> None:
    page = open_report(report_of("hostile"))
    shown = HOSTILE_NAME
    for each in ("\u202e", "\u2066", "\u200b", "\u2028"):
        shown = shown.replace(each, f"\\u{ord(each):04x}")
    shown = shown.replace("\x07", "\\x07")
    heading = page.get_by_role("heading", level=1)
    assert heading.inner_text() == shown[:119] + "…"
    assert heading.locator(".name").get_attribute("title") == shown
    assert not set("\u202e\u2066\u200b\u2028\x07") & set(page.locator("body").inner_text())


@pytest.mark.parametrize("width", [360, 1200])
@pytest.mark.parametrize("subject", ["hostile", "long", "many"])
def test_names_and_counts_widen_no_page(
    open_report: WatchedPages, subject: str, width: int
) -> None:
    assert page_overflow(open_report(report_of(subject), width=width)) == []


def test_a_name_of_ten_thousand_letters_is_cut_and_told_on_demand(
    open_report: WatchedPages,
) -> None:
    page = open_report(report_of("long"))
    shown = page.locator(".name").first
    assert len(shown.inner_text()) <= 120
    assert len(shown.get_attribute("title") or "") == 400
    longest = page.evaluate(
        "() => Math.max(...[...document.querySelectorAll('body *')]"
        ".filter((each) => !each.children.length && each.checkVisibility())"
        ".map((each) => each.textContent.length))"
    )
    assert longest <= 1100


def test_ten_thousand_variants_open_quickly(open_report: WatchedPages) -> None:
    page = open_report(report_of("many"))
    assert "10000 variants" in page.locator("nav").inner_text()
    assert page.locator("tr").count() < 5_000
    taken_ms = page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
    assert taken_ms < 30_000, taken_ms


def _counts(page: Page) -> dict[str, int]:
    counts: dict[str, int] = page.evaluate(_COUNT_BY_TAG)
    return counts


def _attributes(page: Page) -> set[str]:
    return set(
        page.evaluate(
            "() => [...document.querySelectorAll('*')].flatMap((each) => each.getAttributeNames())"
        )
    )
