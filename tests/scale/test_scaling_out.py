"""docs/scaling_out.md as somebody follows it: two nodes, a batch, a server, new versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scale.scaling_out import PAGE, comparable, told

pytestmark = [
    pytest.mark.scale,
    pytest.mark.shows("pages and manifests"),
    pytest.mark.timeout(1800),
]


def test_the_page_that_walks_through_batches_and_serving_says_what_happens(tmp_path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert comparable(told(page, tmp_path)) == comparable(page)
