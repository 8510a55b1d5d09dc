"""Where things lie on a page, and what of that a reader would not like."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from playwright.sync_api import Locator, Page

#: What the tests leave to be looked at.
PICTURES = Path(__file__).resolve().parents[2] / "build" / "browser"

_OVERFLOW = """
() => {
  const page = document.scrollingElement;
  if (page.scrollWidth <= page.clientWidth) return [];
  const scrolls = (each) => {
    for (let at = each.parentElement; at; at = at.parentElement) {
      if (getComputedStyle(at).overflowX !== "visible") return true;
    }
    return false;
  };
  return [...document.querySelectorAll("body *")]
    .filter((each) => each.getBoundingClientRect().right > page.clientWidth + 0.5 && !scrolls(each))
    .map((each) => `${each.localName}#${each.id}.${each.getAttribute("class")}`)
    .concat(`${page.scrollWidth} of ${page.clientWidth} pixels`).slice(-12);
}
"""
_LANDMARKS = """
() => [...document.querySelectorAll("header, main > section, footer, h1, h2, h3, figure")]
  .filter((each) => each.checkVisibility())
  .map((each) => {
    const box = each.getBoundingClientRect();
    const name = `${each.localName} ${each.id || each.innerText.slice(0, 40)}`;
    return {name, kind: each.localName, top: box.top + scrollY, bottom: box.bottom + scrollY,
            left: box.left, width: box.width, height: box.height};
  })
"""
_SMALL_TARGETS = """
() => {
  const inside = (each) => each.closest("p, li, td, th, dd, figcaption") !== null
    && getComputedStyle(each).display === "inline";
  return [...document.querySelectorAll("a[href], button, summary, select, input, [role=button],"
      + " [role=tab], [role=gridcell][tabindex], [role=checkbox]")]
    .filter((each) => each.checkVisibility() && !inside(each) && !each.classList.contains("skip"))
    .map((each) => [each, (each.closest("label") || each).getBoundingClientRect()])
    .filter(([, box]) => box.width < 24 || box.height < 24)
    .map(([each, box]) => `${each.localName} ${each.innerText || each.id}: `
      + `${Math.round(box.width)} x ${Math.round(box.height)}`);
}
"""


def page_overflow(page: Page) -> list[str]:
    """What is wider than the window and does not scroll by itself; empty is as it should be."""
    found: list[str] = page.evaluate(_OVERFLOW)
    return found


def small_targets(page: Page) -> list[str]:
    """What one has to hit and is smaller than 24 by 24 pixels (WCAG 2.2, 2.5.8)."""
    found: list[str] = page.evaluate(_SMALL_TARGETS)
    return found


def disorder(page: Page) -> list[str]:
    """Sections, headings and figures that are empty, lie upon each other or are out of order."""
    found = page.evaluate(_LANDMARKS)
    problems = [f"{each['name']} is empty" for each in found if not each["width"] * each["height"]]
    for kind in ({"header", "section", "footer"}, {"h1", "h2", "h3", "figure"}):
        row = [each for each in found if each["kind"] in kind]
        problems += [
            f"{below['name']} begins in {above['name']}"
            for above, below in pairwise(row)
            if below["top"] < above["bottom"] - 1 and below["left"] < above["left"] + above["width"]
        ]
    return problems


def show_graphs(page: Page) -> int:
    """Has every graph drawn, which happens when it comes into sight; how many there are."""
    views = page.locator(".graph-view")
    for number in range(views.count()):
        views.nth(number).scroll_into_view_if_needed()
        views.nth(number).locator(".graph-status").get_by_text("visible").wait_for()
    page.evaluate("scrollTo(0, 0)")
    return int(views.count())


def open_all(page: Page) -> None:
    """Opens what is folded away."""
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")


def kept_screenshot(page: Page, name: str) -> bytes:
    """A picture of the whole page, left in build/browser to be looked at."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    picture: bytes = page.screenshot(full_page=True, path=PICTURES / f"{name}.png")
    return picture


def is_of_one_colour(picture: Locator) -> bool:
    """Whether nothing can be seen in an element."""
    from io import BytesIO

    from PIL import Image

    with Image.open(BytesIO(picture.screenshot())) as pixels:
        return len(pixels.convert("RGB").getcolors(1) or ()) == 1
