"""Draws the pictures of docs/report.md: reports in a browser, as their readers see them.

    .venv/bin/python -m scripts.draw_report_pictures [NAME ...]

Needs what ``make browser`` installs and a Chromium of the system (ORTPKG_TEST_CHROMIUM names
another), measures the digits package, and takes some minutes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from io import BytesIO
from pathlib import Path

import onnx
from PIL import Image
from playwright.sync_api import Browser, Locator, Page, sync_playwright

from benchmarks.report_models import bert_like_model
from benchmarks.tape_plugin import tape_plugin
from ortpkg import ModelPackage, NewVariant, ReportWishes, create
from ortpkg.api.bench.benchmark import BenchWishes, bench

FOLDER = Path("docs/pictures")
_SAMPLES = Path("sample_packages")
_MOST_BYTES = 200_000
_QUALITY = 88
_MARGIN = 14


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*PICTURES, []], metavar="NAME")
    names = parser.parse_args().names or list(PICTURES)
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, _chromium() as browser:
        for name in names:
            path = FOLDER / f"report-{name}.webp"
            path.write_bytes(_compressed(PICTURES[name](browser, Path(folder))))
            print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


@contextmanager
def _chromium() -> Iterator[Browser]:
    executable = shutil.which(os.environ.get("ORTPKG_TEST_CHROMIUM", "chromium"))
    # Chromium's own sandbox refuses to start as root.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=executable, args=arguments)
        yield browser
        browser.close()


def _compressed(png: bytes) -> bytes:
    with Image.open(BytesIO(png)) as pixels:
        out = BytesIO()
        pixels.convert("RGB").save(out, "WEBP", quality=_QUALITY, method=6)
    if len(out.getvalue()) > _MOST_BYTES:
        raise SystemExit(f"{len(out.getvalue())} bytes are more than {_MOST_BYTES}")
    return out.getvalue()


@cache
def _digits() -> str:
    package = ModelPackage(_SAMPLES / "digits.ortpackage")
    results = bench(package, BenchWishes()).results
    profiles = ("snapdragon-x-laptop", "plain-server")
    return package.report(ReportWishes(profiles=profiles, results=results))


@cache
def _tinychar() -> str:
    return ModelPackage(_SAMPLES / "tinychar.ortpackage").report()


@cache
def _bert() -> str:
    with tempfile.TemporaryDirectory() as folder, tape_plugin() as tape:
        model = Path(folder, "model.onnx")
        onnx.save(bert_like_model(), model)
        root = Path(folder, "bert.ortpackage")
        create(root, [NewVariant(model=model, name="fp32", ep="cpu")])
        return ModelPackage(root).report(ReportWishes(eps=(tape, "openvino")))


def _opened(
    browser: Browser, folder: Path, html: str, *, width: int = 1200, dark: bool = False
) -> Page:
    path = folder / "report.html"
    path.write_text(html, encoding="utf-8")
    page = browser.new_page(
        viewport={"width": width, "height": 1000}, color_scheme="dark" if dark else "light"
    )
    page.goto(path.as_uri())
    return page


def _overview(browser: Browser, folder: Path) -> bytes:
    """The head of the page, and what the package holds."""
    page = _opened(browser, folder, _tinychar())
    package = page.locator("#package").bounding_box()
    assert package is not None
    clip = {"x": 0, "y": 0, "width": 1200, "height": package["y"] + package["height"] + 12}
    return bytes(page.screenshot(full_page=True, clip=clip))


def _selection(browser: Browser, folder: Path) -> bytes:
    """The matrices of digits, with a reason open."""
    page = _opened(browser, folder, _digits(), width=1000)
    page.locator("#selection button.verdict", has_text="rejected").first.focus()
    return bytes(page.locator("#selection").screenshot())


def _graph(browser: Browser, folder: Path) -> bytes:
    """A BERT's file on three execution providers, with a layer and what it holds opened."""
    page = _opened(browser, folder, _bert())
    view = page.locator(".graph-view")
    view.scroll_into_view_if_needed()
    view.get_by_text("visible").wait_for()
    view.get_by_role("radio", name="the model file").check()
    for label in ("encoder,", "layer.0,", "attention,", "intermediate,", "intermediate_act_fn,"):
        _open_group(view, f"group {label}")
    _move_up(page, view.locator("svg.graph-picture"), by=300)
    return bytes(view.screenshot())


def _open_group(view: Locator, label: str) -> None:
    group = view.locator(f'[role=treeitem][aria-label^="{label}"]').first
    group.wait_for()
    if group.get_attribute("aria-expanded") == "false":
        group.evaluate("(each) => each.dispatchEvent(new MouseEvent('click', {bubbles: true}))")
        view.locator(f'[aria-label^="{label}"][aria-expanded=true]').first.wait_for()


def _move_up(page: Page, picture: Locator, by: int) -> None:
    picture.focus()
    for _ in range(by // 60):
        page.keyboard.press("ArrowDown")
    picture.blur()


def _figure(page: Page, section: str) -> bytes:
    """The first figure of a section, with some of the page around it."""
    box = page.locator(f"#{section} figure").first.bounding_box()
    assert box is not None
    clip = {
        "x": box["x"] - _MARGIN,
        "y": box["y"] - _MARGIN,
        "width": box["width"] + 2 * _MARGIN,
        "height": box["height"] + 2 * _MARGIN,
    }
    return bytes(page.screenshot(full_page=True, clip=clip))


def _memory(browser: Browser, folder: Path) -> bytes:
    """The memory of a transformer's prefill, in dark colours."""
    page = _opened(browser, folder, _tinychar(), dark=True)
    return _figure(page, "memory")


def _order(browser: Browser, folder: Path) -> bytes:
    """Who runs what, in which order, of the BERT on three execution providers."""
    page = _opened(browser, folder, _bert())
    return _figure(page, "order")


def _measurements(browser: Browser, folder: Path) -> bytes:
    """Latency, error and memory of digits."""
    page = _opened(browser, folder, _digits())
    return _figure(page, "bench")


def _telephone(browser: Browser, folder: Path) -> bytes:
    """The same page on a telephone, in dark colours."""
    page = _opened(browser, folder, _digits(), width=360, dark=True)
    return bytes(page.screenshot(clip={"x": 0, "y": 0, "width": 360, "height": 740}))


#: Name of the picture → what draws it.
PICTURES: Mapping[str, Callable[[Browser, Path], bytes]] = {
    "overview": _overview,
    "selection": _selection,
    "graph": _graph,
    "order": _order,
    "memory": _memory,
    "measurements": _measurements,
    "telephone": _telephone,
}


if __name__ == "__main__":
    main()
