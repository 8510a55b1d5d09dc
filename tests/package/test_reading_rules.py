"""Releases whose verdict can be asked for: which, and that each is written down for users."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import get_args

import pytest

from ortpkg.cli.parameters import CompatOption
from ortpkg.foundations.errors import PackageFormatError, UsageError
from ortpkg.foundations.onnxruntime_releases import (
    ONNXRUNTIME_1_30,
    ONNXRUNTIME_1_31,
    ONNXRUNTIME_1_32,
)
from ortpkg.package.reader import open_package
from ortpkg.package.reading_rules import COMPAT_NAMES, reading_rules

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    "name", ["onnxruntime-1.29", "onnxruntime-1.33", "onnxruntime-1.31.0", "1.31", ""]
)
def test_another_release_is_refused_with_the_list(name: str) -> None:
    with pytest.raises(
        UsageError,
        match=r"is not known: use onnxruntime-1\.30, onnxruntime-1\.31, onnxruntime-1\.32, or leave",
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


_ASSET = f"sha256:{'a' * 64}"
_FOLDER = f"shared_assets/sha256-{'a' * 64}"


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege on Windows")
@pytest.mark.parametrize(
    ("link", "target", "declared", "message"),
    [
        ("in", "d", {_ASSET: "in/a"}, "path 'in/a' goes through a link, 'in'"),
        (_FOLDER, "../d", {}, f"path '{_FOLDER}' goes through a link, 'sha256-{'a' * 64}'"),
        (_FOLDER, "../nowhere", {}, f"path '{_FOLDER}' goes through a link"),
        ("shared_assets", "d", {}, "path 'shared_assets' goes through a link"),
        ("in", "d", {_ASSET: "./."}, r"path './.' is the package itself"),
    ],
)
def test_1_32_follows_no_link_to_shared_assets_of_a_portable_package(
    tmp_path: Path, link: str, target: str, declared: dict[str, str], message: str
) -> None:
    manifest = {"schema_version": "1.0", "components": {"m": {"variants": {}}}}
    (tmp_path / "d/a").mkdir(parents=True)
    (tmp_path / link).parent.mkdir(exist_ok=True)
    (tmp_path / link).symlink_to(target)

    def write(layout: str) -> None:
        document = manifest | {"shared_assets": declared, "layout": layout}
        (tmp_path / "manifest.json").write_text(json.dumps(document), "utf-8")

    write("portable")
    open_package(tmp_path, compat=ONNXRUNTIME_1_31)
    with pytest.raises(PackageFormatError, match=re.escape(message)) as refused:
        open_package(tmp_path, compat=ONNXRUNTIME_1_32)
    assert [each.rule for each in refused.value.findings] == ["ORTC-PATH_CONFINEMENT"]
    write("installed")
    open_package(tmp_path, compat=ONNXRUNTIME_1_32)


def test_1_32_passes_over_what_is_beside_the_folders_of_shared_assets(tmp_path: Path) -> None:
    manifest = {
        "schema_version": "1.0",
        "components": {"m": {"variants": {}}},
        "shared_assets": {_ASSET: "plain.json/x"},
    }
    (tmp_path / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    (tmp_path / "plain.json").write_text("{}", "utf-8")
    (tmp_path / "shared_assets/other").mkdir(parents=True)

    (asset,) = open_package(tmp_path, compat=ONNXRUNTIME_1_32).shared_assets
    assert (asset.uri, asset.is_declared) == (_ASSET, True)
