"""Files of others that the page carries: unchanged, with name, version and licence."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

import ortpkg.report

VENDOR = Path(ortpkg.report.__file__).parent / "static" / "vendor"
ENTRIES: list[dict[str, Any]] = json.loads((VENDOR / "vendor.json").read_text(encoding="utf-8"))


def digest_of(name: str) -> str:
    return hashlib.sha256((VENDOR / name).read_bytes()).hexdigest()


@pytest.mark.parametrize("entry", ENTRIES, ids=[each["name"] for each in ENTRIES])
def test_a_file_is_the_one_that_was_taken(entry: dict[str, Any]) -> None:
    assert digest_of(entry["file"]) == entry["sha256"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", entry["version"])
    assert entry["taken_from"]
    assert entry["package"]


@pytest.mark.parametrize("entry", ENTRIES, ids=[each["name"] for each in ENTRIES])
def test_its_licence_stands_beside_it(entry: dict[str, Any]) -> None:
    assert entry["license"] == "MIT"
    assert entry["license_files"]
    for name, digest in entry["license_files"].items():
        assert digest_of(name) == digest
        assert "Permission is hereby granted" in (VENDOR / name).read_text(encoding="utf-8")


def test_nothing_lies_there_that_the_list_does_not_name() -> None:
    named = {name for entry in ENTRIES for name in (entry["file"], *entry["license_files"])}
    assert {path.name for path in VENDOR.iterdir()} == named | {"vendor.json"}


@pytest.mark.parametrize("entry", ENTRIES, ids=[each["name"] for each in ENTRIES])
def test_a_file_asks_for_nothing_and_makes_no_code(entry: dict[str, Any]) -> None:
    text = (VENDOR / entry["file"]).read_text(encoding="utf-8")
    asking = (
        r"sourceMappingURL|importScripts|\beval\(|new Function|fetch\(|XMLHttpRequest|https?://"
    )
    assert re.findall(asking, text) == []


def test_the_change_to_a_file_is_told_and_is_the_only_one() -> None:
    (dagre,) = (each for each in ENTRIES if each["name"] == "@dagrejs/dagre")
    original = (VENDOR / dagre["file"]).read_bytes() + b"//# sourceMappingURL=dagre.min.js.map\n"
    assert hashlib.sha256(original).hexdigest() == dagre["sha256_in_the_package"]
