"""The rules of axe-core, which says of a page where not everybody can use it."""

from __future__ import annotations

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page

#: What WCAG 2.2 asks for at the levels A and AA, and what axe's makers hold for good practice.
_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def violations(page: Page) -> list[str]:
    """What axe finds wrong with a page as it is shown now, each with its first places."""
    page.evaluate(AXE_SCRIPT)
    found = page.evaluate(
        "(tags) => axe.run(document, {runOnly: tags, resultTypes: ['violations']})", _TAGS
    )
    return [_told(violation) for violation in found["violations"]]


def _told(violation: dict[str, object]) -> str:
    nodes = violation["nodes"]
    assert isinstance(nodes, list)
    places = [f"{each['target']}: {' '.join(each['failureSummary'].split())}" for each in nodes]
    return f"{violation['id']} ({len(nodes)} times): " + " | ".join(places[:3])
