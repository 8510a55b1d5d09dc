"""The pages of the guide about packages between machines, as somebody follows them."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from ortpkg.cli.app import run
from ortpkg.distribution.store.package_store import PackageStore
from tests.distribution import two_machines
from tests.distribution.conftest import SAMPLES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "package_manager.md"
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_VARYING = re.compile(r"oci-layout:\S+:latest|CPUExecutionProvider .*")


def test_every_block_runs_in_order_and_says_what_the_page_says(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    store: PackageStore,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copytree(SAMPLES / "digits.ortpackage", tmp_path / "digits.ortpackage")
    monkeypatch.chdir(tmp_path)
    said = ""
    for language, block in _BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if language != "sh":
            assert _VARYING.sub("", block) == _VARYING.sub("", said)
            continue
        said = ""
        for line in block.splitlines():
            words = shlex.split(line)[1:]
            code = run(words)
            shown = capsys.readouterr()
            said += shown.err + shown.out
            assert code == (1 if words[0] == "outdated" else 0), (line, shown)
            if words[0] == "rollback":
                assert store.find("digits").number == 1
    assert store.packages() == ()


def test_two_machines_print_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "ortpkg.foundations.storage.package_lock.locks_directory", lambda: tmp_path / "locks"
    )
    (tmp_path / "machines").mkdir()
    page = two_machines.PAGE.read_text(encoding="utf-8")

    told = two_machines.told(page, tmp_path / "machines")

    assert told == page, "python -m tests.distribution.two_machines writes the page anew"
