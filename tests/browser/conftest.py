"""Reports in a Chromium of the system, which ``make browser`` drives.

Every test proves beside its own that the page asks for nothing, says nothing in the console, and
opens nothing.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.browser.watched_pages import WatchedPages

#: The browser to be driven, a command or a path; without it nothing here is collected.
CHROMIUM = os.environ.get("ORTPKG_TEST_CHROMIUM", "")
collect_ignore_glob = [] if CHROMIUM else ["test_*.py"]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A browser without a window. Where there is none, tests fail: somebody asked for them."""
    from playwright.sync_api import sync_playwright  # in the environment of make browser alone

    executable = shutil.which(CHROMIUM)
    if executable is None:
        pytest.fail(f"there is no browser {CHROMIUM}; on Debian: apt-get install chromium")
    # Chromium's own sandbox refuses to start as root.
    arguments = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=executable, args=arguments)
        yield started
        started.close()


@pytest.fixture
def open_report(browser: Browser, tmp_path: Path) -> Iterator[WatchedPages]:
    """Opens reports: ``open_report(html, width=360, dark=True)`` is a page of playwright's."""
    from tests.browser.watched_pages import WatchedPages  # playwright

    pages = WatchedPages(browser=browser, folder=tmp_path)
    yield pages
    pages.close()
    pages.verify()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Tells the figures that tests have taken."""
    for report in terminalreporter.stats.get("passed", ()):
        figures = dict(report.user_properties).get("figures")
        if figures is not None and "tests/browser" in report.nodeid:
            terminalreporter.write_line(figures)
