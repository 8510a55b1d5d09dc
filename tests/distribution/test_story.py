"""docs/package_manager.md as a reader follows it, on four machines with a store each."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.distribution import package_manager_page


def test_the_commands_of_the_page_print_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "ortpkg.foundations.storage.package_lock.locks_directory", lambda: tmp_path / "locks"
    )
    (tmp_path / "machines").mkdir()
    page = package_manager_page.PAGE.read_text(encoding="utf-8")

    text = package_manager_page.told(page, tmp_path / "machines")

    assert text == page, "python -m tests.distribution.package_manager_page writes the page anew"
