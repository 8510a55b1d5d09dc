"""What axe-core's rules say of the pages, however they are shown."""

from __future__ import annotations

import pytest

from tests.browser.axe import violations
from tests.browser.layout import open_all, show_graphs
from tests.browser.subjects import report_of
from tests.browser.watched_pages import WatchedPages

pytestmark = pytest.mark.browser
SUBJECTS = ("digits", "measured", "tinychar", "bert", "hostile")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_page_with_everything_open_breaks_no_rule(
    open_report: WatchedPages, subject: str, dark: bool
) -> None:
    page = open_report(report_of(subject), dark=dark)
    show_graphs(page)
    open_all(page)
    assert violations(page) == []


@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_page_on_a_telephone_breaks_no_rule(open_report: WatchedPages, subject: str) -> None:
    page = open_report(report_of(subject), width=360, height=740, touch=True)
    show_graphs(page)
    assert violations(page) == []


def test_a_page_of_ten_thousand_variants_breaks_no_rule(open_report: WatchedPages) -> None:
    assert violations(open_report(report_of("many"))) == []


def test_dark_colours_by_the_button_break_no_rule(open_report: WatchedPages) -> None:
    page = open_report(report_of("digits"))
    page.get_by_role("button", name="Dark colours").click()
    assert violations(page) == []


def test_the_rules_are_asked(open_report: WatchedPages) -> None:
    page = open_report(report_of("digits"))
    page.evaluate("document.querySelector('h1').innerHTML = '<img><i tabindex=5>x</i>'")
    found = " ".join(violations(page))
    assert "image-alt" in found
    assert "tabindex" in found
