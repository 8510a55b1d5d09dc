"""Releases whose verdict can be asked for: which, and that each is written down for users."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest

from ortpkg.cli.parameters import CompatOption
from ortpkg.errors import PackageFormatError, UsageError
from ortpkg.onnxruntime_releases import ONNXRUNTIME_1_30, ONNXRUNTIME_1_31
from ortpkg.package.reader import open_package
from ortpkg.package.reading_rules import COMPAT_NAMES, reading_rules

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    "name", ["onnxruntime-1.29", "onnxruntime-1.32", "onnxruntime-1.31.0", "1.31", ""]
)
def test_another_release_is_refused_with_the_list(name: str) -> None:
    with pytest.raises(
        UsageError, match=r"is not known: use onnxruntime-1\.30, onnxruntime-1\.31, or leave it out"
    ):
        reading_rules(name)


@pytest.mark.parametrize("name", COMPAT_NAMES)
def test_each_release_is_in_the_help_the_guide_and_the_reference(name: str) -> None:
    (option,) = get_args(CompatOption)[1:]
    for text in (
        option.help,
        (DOCS / "guide.md").read_text("utf-8"),
        (DOCS / "formats.md").read_text("utf-8"),
    ):
        assert name in text


def test_1_30_opens_what_writes_files_and_1_31_does_not(tmp_path: Path) -> None:
    options = {"session.enable_profiling": "1"}
    body = {"ep": "CPUExecutionProvider", "executor_info": {"ort": {"session_options": options}}}
    manifest = {"schema_version": "1.0", "components": {"m": {"variants": {"v": body}}}}
    (tmp_path / "v").mkdir()
    (tmp_path / "manifest.json").write_text(json.dumps(manifest), "utf-8")

    assert open_package(tmp_path, compat=ONNXRUNTIME_1_30).compat == ONNXRUNTIME_1_30
    with pytest.raises(PackageFormatError, match=r"session\.enable_profiling"):
        open_package(tmp_path, compat=ONNXRUNTIME_1_31)
