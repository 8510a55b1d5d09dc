"""Where scripts do not run, everything but what needs them is there."""

from __future__ import annotations

import pytest

from tests.browser.subjects import report_of
from tests.browser.watched_pages import WatchedPages

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("subject", ["digits", "tinychar", "bert"])
def test_texts_tables_and_pictures_are_there(open_report: WatchedPages, subject: str) -> None:
    scripted = open_report(report_of(subject))
    plain = open_report(report_of(subject), javascript=False)
    for what in ("main > section", "main table", "main svg[role=img]", "main figcaption"):
        assert plain.locator(what).count() == scripted.locator(what).count() > 0, what
    for each in plain.locator("main > section figure > .scrolls > *").all():
        assert each.is_visible()
    assert plain.locator(".graph-view:visible").count() == 0


def test_tables_open_and_links_lead(open_report: WatchedPages) -> None:
    page = open_report(report_of("digits"), javascript=False)
    for number in range(page.locator("main details > summary").count()):
        summary = page.locator("main details > summary").nth(number)
        if summary.is_visible():
            summary.click()
            assert summary.locator("xpath=..").get_attribute("open") is not None
    page.locator("nav .card a").last.click()
    assert page.url.endswith(page.locator("main > section").last.get_attribute("id") or "?")


def test_nothing_is_offered_that_would_not_work(open_report: WatchedPages) -> None:
    page = open_report(report_of("digits"), javascript=False)
    offered = page.locator("button:not(.verdict):visible, input:visible, select:visible")
    assert offered.count() == 0
