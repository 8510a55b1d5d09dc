"""The matrix of verdicts: why a cell is as it is, for those who point, press keys, or tap."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.browser.subjects import report_of
from tests.browser.watched_pages import WatchedPages

pytestmark = pytest.mark.browser


def _note(page: Page) -> str:
    words: str = page.locator(".verdict-note").inner_text()
    return words


def _focused(page: Page) -> str:
    """The row's and the column's number of the cell that has the focus, "" without one."""
    found: str = page.evaluate(
        "() => { const cell = document.activeElement.closest('td');"
        " return cell ? `${cell.parentElement.rowIndex}, ${cell.cellIndex}` : ''; }"
    )
    return found


@pytest.fixture
def digits(open_report: WatchedPages) -> Page:
    return open_report(report_of("digits"), reduced_motion=True)


def test_a_cell_that_one_points_at_says_why(digits: Page) -> None:
    digits.locator("button.verdict.selected").first.hover()
    assert "it is the best of all that can run here" in _note(digits)
    digits.locator(".verdict-note").hover()
    digits.wait_for_timeout(400)
    assert _note(digits) != ""
    digits.mouse.move(1, 1)
    digits.wait_for_function("() => document.querySelector('.verdict-note').textContent === ''")


def test_arrow_keys_go_from_cell_to_cell_and_the_tab_key_passes_the_matrix(digits: Page) -> None:
    digits.locator("table.matrix button").first.focus()
    assert _focused(digits) == "1, 1"
    for key, cell in (("ArrowRight", "1, 2"), ("ArrowDown", "2, 2"), ("Home", "2, 1")):
        digits.keyboard.press(key)
        assert _focused(digits) == cell
        assert "cpu-" in _note(digits)
    digits.keyboard.press("ArrowLeft")
    assert _focused(digits) == "2, 1"
    digits.keyboard.press("Escape")
    assert _note(digits) == ""
    digits.keyboard.press("Tab")
    assert _focused(digits) == ""
    digits.keyboard.press("Shift+Tab")
    assert _focused(digits) == "2, 1"


def test_on_a_telephone_a_tap_says_why_within_the_window(open_report: WatchedPages) -> None:
    page = open_report(report_of("digits"), width=360, height=740, touch=True, reduced_motion=True)
    page.locator("button.verdict.selected").first.tap()
    assert "it is the best of all that can run here" in _note(page)
    box = page.locator(".verdict-note").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 360
    page.locator("#selection h2").tap()
    page.wait_for_function("() => document.querySelector('.verdict-note').textContent === ''")


def test_without_scripts_the_reason_stands_in_titles_and_in_the_table(
    open_report: WatchedPages,
) -> None:
    page = open_report(report_of("digits"), javascript=False)
    title = page.locator("button.verdict.selected").first.get_attribute("title") or ""
    assert "it is the best of all that can run here" in title
    page.locator("#selection details > summary").first.click()
    assert page.locator("#selection details td", has_text=title).first.is_visible()
