"""Graphs of real size stay fluid, with figures that the end of the run tells."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from tests.browser.layout import show_graphs
from tests.browser.subjects import report_of
from tests.browser.watched_pages import WatchedPages

pytestmark = pytest.mark.browser

#: Moves and zooms the first graph once a frame, sixty times; the times between frames, in ms.
_FRAMES = """
() => new Promise((resolve) => {
  const view = document.querySelector("svg.graph-picture");
  const box = view.getBoundingClientRect();
  const middle = {clientX: box.left + box.width / 2, clientY: box.top + box.height / 2};
  const times = [];
  let last = performance.now();
  view.focus();
  const step = (now) => {
    times.push(now - last);
    last = now;
    if (times.length > 60) return resolve(times.slice(1));
    if (times.length % 2) {
      const key = times.length % 4 === 1 ? "ArrowDown" : "ArrowRight";
      view.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
    } else {
      view.dispatchEvent(new WheelEvent("wheel", {deltaY: times.length % 8 < 4 ? 120 : -120,
        ctrlKey: true, bubbles: true, cancelable: true, ...middle}));
    }
    requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
})
"""
#: Starts the first graph anew, with a worker of its own; milliseconds until its picture is there.
_OPENING = """
() => new Promise((resolve) => {
  const view = document.querySelector(".graph-view");
  view.classList.remove("is-drawn");
  const started = performance.now();
  startGraphView(view, new GraphLayouter(document.getElementById("graph-layout-source").textContent));
  const look = () => view.classList.contains("is-drawn")
    ? requestAnimationFrame(() => resolve(performance.now() - started))
    : setTimeout(look, 5);
  look();
})
"""


@pytest.fixture
def tell(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Keeps a figure for the end of the run."""
    return lambda words: record_property("figures", words)


def _opened(page: Page) -> float:
    show_graphs(page)
    return float(page.evaluate(_OPENING))


@pytest.mark.parametrize(("subject", "nodes"), [("bert", "1,471"), ("chain", "10,000")])
def test_large_graphs_are_there_in_two_seconds(
    open_report: WatchedPages, tell: Callable[[str], None], subject: str, nodes: str
) -> None:
    taken_ms = _opened(open_report(report_of(subject)))
    tell(f"{nodes} nodes: {taken_ms:.0f} ms from packed data to the picture")
    # The goal is 2,000 on a machine of its own; this one may have other things to do.
    assert taken_ms < 10_000


@pytest.mark.parametrize("stage", ["before", "after"])
def test_a_bert_moves_and_zooms_frame_by_frame(
    open_report: WatchedPages, tell: Callable[[str], None], stage: str
) -> None:
    page = open_report(report_of("bert"))
    show_graphs(page)
    view = page.locator(".graph-view")
    view.locator(f"input[value={stage}]").check()
    view.get_by_role("button", name="Open all").click()
    page.wait_for_function("() => !document.querySelector('.graph-view[aria-busy]')")
    shown = view.locator("[role=treeitem]").count()
    frames = sorted(page.evaluate(_FRAMES))
    tell(
        f"BERT, {stage}: {shown} items, a frame takes"
        f" {frames[30]:.0f} ms (median), {frames[57]:.0f} ms (95 %), {frames[-1]:.0f} ms (most)"
    )
    assert frames[30] < 100
    assert shown > 40
