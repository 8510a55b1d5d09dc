"""The page around the sections."""

from __future__ import annotations

import pytest

from tests.browser.watched_pages import WatchedPages

pytestmark = pytest.mark.browser


def test_every_section_has_a_heading_and_a_card_that_leads_to_it(
    open_report: WatchedPages, digits_html: str
) -> None:
    page = open_report(digits_html)
    cards = page.locator("nav .card a")
    assert cards.count() == page.locator("main > section").count() >= 2
    for number in range(cards.count()):
        cards.nth(number).click()
        target = page.locator(cards.nth(number).get_attribute("href"))
        heading = target.get_by_role("heading", level=2)
        assert heading.is_visible()
        heading.scroll_into_view_if_needed()
        assert heading.bounding_box()["y"] >= 0
        assert heading.inner_text() == cards.nth(number).locator(".card-title").inner_text()
