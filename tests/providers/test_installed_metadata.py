"""Distributions by the folders that record them: as importlib.metadata says, or unknown."""

from __future__ import annotations

import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from ortpkg.runtime.providers.installed_metadata import (
    may_have_entry_points,
    recorded_distributions,
    recorded_versions,
)

_GROUP = "ortpkg.execution_providers"


def record(site: Path, folder: str, *, entry_points: str | None = None) -> None:
    (site / folder).mkdir(parents=True)
    (site / folder / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: x\nVersion: 0\n", encoding="utf-8"
    )
    if entry_points is not None:
        (site / folder / "entry_points.txt").write_text(entry_points, encoding="utf-8")


def test_says_what_importlib_metadata_says_of_this_environment() -> None:
    names = ["onnx", "numpy", "ruff", "no-such-distribution", "Jsonschema.RS", "typing_extensions"]
    expected = {}
    for name in names:
        try:
            expected[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    assert recorded_versions(names) == expected
    assert {"onnx", "numpy"} <= expected.keys()


def test_the_first_on_the_path_counts_however_its_name_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(tmp_path / "a", "acme_gpu-2.0+cu12.dist-info")
    record(tmp_path / "b", "Acme.GPU-1.0.dist-info")
    monkeypatch.setattr(
        sys, "path", [str(tmp_path / "missing"), str(tmp_path / "a"), str(tmp_path / "b")]
    )
    assert recorded_versions(["acme-gpu", "acme"]) == {"acme-gpu": "2.0+cu12"}


@pytest.mark.parametrize("folder", ["acme-1.0.egg-info", "acme-1.0-py3.egg", "acme.dist-info"])
def test_another_form_of_record_is_left_to_importlib_metadata(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(tmp_path, folder)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert recorded_versions(["acme"]) is None
    assert recorded_versions(["other"]) == {}


def test_a_folder_that_an_uninstallation_left_behind_is_left_to_importlib_metadata(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "acme-1.0.dist-info").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert recorded_versions(["acme"]) is None


def test_an_archive_on_the_path_is_left_to_importlib_metadata(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(tmp_path / "site.zip", "w") as archive:
        archive.writestr("acme-1.0.dist-info/METADATA", "Version: 1.0\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site.zip")])
    assert recorded_versions(["acme"]) is None
    assert may_have_entry_points(_GROUP)


@pytest.mark.parametrize("folder", ["acme-1.0.dist-info", "acme-1.0.egg-info"])
def test_an_entry_point_is_seen_in_every_form_of_record(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(tmp_path, folder, entry_points="[console_scripts]\nacme = acme:main\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert not may_have_entry_points(_GROUP)
    (tmp_path / folder / "entry_points.txt").write_text(
        f"[ {_GROUP} ]\nacme = acme:EpFactory\n", encoding="utf-8"
    )
    assert may_have_entry_points(_GROUP)


def test_eggs_and_finders_of_others_may_have_entry_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(tmp_path, "acme-1.0-py3.egg")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert may_have_entry_points(_GROUP)
    monkeypatch.setattr(sys, "path", [])
    assert not may_have_entry_points(_GROUP)
    monkeypatch.setattr(
        sys, "meta_path", [*sys.meta_path, type("Finder", (), {"find_distributions": None})]
    )
    assert may_have_entry_points(_GROUP)
    assert recorded_versions(["acme"]) is None


def test_every_distribution_is_listed_with_its_folder_and_the_time_of_its_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(tmp_path / "a", "acme_gpu-2.0.dist-info")
    record(tmp_path / "a", "left.dist-info")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "a")])
    (only,) = recorded_distributions()
    assert only[:4] == ("acme-gpu", "2.0", str(tmp_path / "a"), "acme_gpu-2.0.dist-info")
    assert only.changed_ns == (tmp_path / "a/acme_gpu-2.0.dist-info").stat().st_mtime_ns
    assert only.read("METADATA", 100) == b"Metadata-Version: 2.1\nName: x\nVersion: 0\n"
    assert only.read("METADATA", 10) is None
    assert only.read("RECORD", 10) is None
