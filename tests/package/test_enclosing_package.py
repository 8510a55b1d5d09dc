"""enclosing_package: the nearest folder that is a package, not what looks like one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ortpkg.package.formats.enclosing_package import enclosing_package

COMPONENT_MANIFEST = '{"schema_version": "1.0", "package_name": "p", "components": {}}'


def file(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "manifest", ['{"model_name": "p"}', '{"component_models": {}}', COMPONENT_MANIFEST]
)
@pytest.mark.parametrize("below", [".", "models", "models/classifier/cpu"])
def test_finds_the_package_from_any_folder_in_it(tmp_path: Path, manifest: str, below: str) -> None:
    file(tmp_path / "p/manifest.json", manifest)
    (tmp_path / "p" / below).mkdir(parents=True, exist_ok=True)
    assert enclosing_package(tmp_path / "p" / below) == tmp_path / "p"


def test_the_nearest_one_counts(tmp_path: Path) -> None:
    file(tmp_path / "manifest.json", COMPONENT_MANIFEST)
    file(tmp_path / "inner/manifest.json", COMPONENT_MANIFEST)
    assert enclosing_package(tmp_path / "inner") == tmp_path / "inner"


def test_a_component_of_a_package_is_not_taken_for_one(tmp_path: Path) -> None:
    metadata = '{"component_model_name": "c", "model_variants": {}}'
    file(tmp_path / "manifest.json", '{"model_name": "p", "component_models": ["c"]}')
    file(tmp_path / "models/c/metadata.json", metadata)
    assert enclosing_package(tmp_path / "models/c") == tmp_path
    (tmp_path / "manifest.json").unlink()
    assert enclosing_package(tmp_path / "models/c") == tmp_path / "models/c"


@pytest.mark.parametrize(
    "text",
    ['{"name": "a web application", "icons": []}', "[]", "{", '"components"', "", "[" * 100_000],
)
def test_another_manifest_is_none_unless_the_folder_says_so(tmp_path: Path, text: str) -> None:
    file(tmp_path / "site/manifest.json", text)
    file(tmp_path / "p.ortpackage/manifest.json", text)
    assert enclosing_package(tmp_path / "site") is None
    assert enclosing_package(tmp_path / "p.ortpackage") == tmp_path / "p.ortpackage"


@pytest.mark.skipif(
    os.name == "nt" or os.geteuid() == 0, reason="needs folders that may not be read"
)
def test_a_folder_that_may_not_be_read_is_passed_over(tmp_path: Path) -> None:
    inner = tmp_path / "closed"
    file(inner / "manifest.json", COMPONENT_MANIFEST)
    inner.chmod(0)
    try:
        assert enclosing_package(inner) is None
    finally:
        inner.chmod(0o700)
