"""The page's Content-Security-Policy holds in a browser: what steals into the page does nothing."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.browser.subjects import report_of
from tests.browser.watched_pages import WatchedPages

pytestmark = pytest.mark.browser

#: A promise, since the policy stops Page.wait_for_function, which evaluates text in the page.
_COLLECT = """
window.blocked = new Promise((resolve) => {
  document.addEventListener(
    "securitypolicyviolation", (event) => resolve(`${event.effectiveDirective} ${event.blockedURI}`)
  );
  setTimeout(() => resolve("nothing within 20 s"), 20000);
});
undefined;
"""
#: What is added to the page → the directive that stops it, and what is stopped.
INTRUDERS = {
    "a script": (
        (
            "const e = document.createElement('script'); e.textContent = 'window.intruder = 1';"
            "document.body.append(e);"
        ),
        "script-src-elem inline",
    ),
    "a script of elsewhere": (
        (
            "const e = document.createElement('script'); e.src = 'https://example.org/a.js';"
            "document.body.append(e);"
        ),
        "script-src-elem https://example.org/a.js",
    ),
    "a handler": (
        (
            "document.body.insertAdjacentHTML('beforeend', '<b onclick=\"intruder=1\" id=b>b</b>');"
            "document.getElementById('b').click();"
        ),
        "script-src-attr inline",
    ),
    "a link that is a script": (
        (
            "document.body.insertAdjacentHTML("
            "'beforeend', '<a href=\"javascript:intruder=1\" id=b>b</a>');"
            "document.getElementById('b').click();"
        ),
        "script-src-elem inline",
    ),
    "a style": (
        "document.body.insertAdjacentHTML('beforeend', '<p style=\"color:red\">b</p>');",
        "style-src-attr inline",
    ),
    "a picture": (
        "document.body.insertAdjacentHTML('beforeend', '<img src=\"https://example.org/a.png\">');",
        "img-src https://example.org/a.png",
    ),
    "a picture beside the page": (
        "document.body.insertAdjacentHTML('beforeend', '<img src=\"beside.png\">');",
        "img-src file",
    ),
    "a frame": (
        "document.body.insertAdjacentHTML('beforeend', '<iframe src=\"https://example.org/\">');",
        "frame-src https://example.org",
    ),
    "a request": (
        "fetch('https://example.org/').catch(() => {});",
        "connect-src https://example.org/",
    ),
    "a beacon": (
        "navigator.sendBeacon('https://example.org/', 'x');",
        "connect-src https://example.org/",
    ),
    "a socket": (
        "try { new WebSocket('wss://example.org/'); } catch (error) { /* blocked */ }",
        "connect-src wss://example.org/",
    ),
    "a form": (
        (
            "document.body.insertAdjacentHTML('beforeend',"
            " '<form action=\"https://example.org/\" id=f></form>');"
            "document.getElementById('f').submit();"
        ),
        "form-action https://example.org/?",
    ),
    "a font": (
        "new FontFace('x', 'url(https://example.org/a.woff)').load().catch(() => {});",
        "font-src https://example.org/a.woff",
    ),
    "a worker of elsewhere": (
        "try { new Worker('data:text/javascript,1'); } catch (error) { /* blocked */ }",
        "worker-src data",
    ),
}


def _blocked(page: Page, intruder: str) -> str:
    page.evaluate(_COLLECT)
    page.evaluate(intruder)
    return str(page.evaluate("window.blocked"))


@pytest.mark.parametrize("kind", INTRUDERS)
def test_the_browser_stops(open_report: WatchedPages, kind: str) -> None:
    open_report.provoked = True
    page = open_report(report_of("digits"))
    code, expected = INTRUDERS[kind]
    assert _blocked(page, code) == expected
    assert page.evaluate("typeof window.intruder") == "undefined"


def test_no_text_becomes_code(open_report: WatchedPages) -> None:
    open_report.provoked = True
    page = open_report(report_of("digits"))
    assert _blocked(page, "setTimeout('window.intruder = 1')").startswith("script-src eval")
    assert page.evaluate("typeof window.intruder") == "undefined"
