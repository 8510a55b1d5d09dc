"""The guides as a reader follows them: two nodes, a batch, a server, new versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scale.guide_pages import PAGES, comparable, told

pytestmark = [
    pytest.mark.scale,
    pytest.mark.shows("pages and manifests"),
    pytest.mark.timeout(1800),
]


def test_the_guides_to_batches_and_serving_say_what_happens(tmp_path: Path) -> None:
    pages = [page.read_text(encoding="utf-8") for page in PAGES]
    for text, page in zip(told(pages, tmp_path), pages, strict=True):
        assert comparable(text) == comparable(page)
