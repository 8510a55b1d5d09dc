"""Each file's state: what verify finds, and what a budget leaves open."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from ortpkg.foundations.errors import PackageFormatError
from ortpkg.foundations.storage.digest_cache import DigestCache, now_ns
from ortpkg.foundations.storage.hashing import hash_files
from ortpkg.package.integrity import file_states as module
from ortpkg.package.integrity.digest_check import compute_digests, hash_recorded
from ortpkg.package.integrity.digests import dump_digests
from ortpkg.package.integrity.file_states import FileState, file_states
from ortpkg.package.integrity.verification import verify_package


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "p.ortpackage"
    (folder / "v").mkdir(parents=True)
    (folder / "w").mkdir()
    (folder / "manifest.json").write_text("{}")
    (folder / "v" / "a.bin").write_bytes(b"a" * 1000)
    (folder / "v" / "b.bin").write_bytes(b"b" * 2000)
    (folder / "w" / "c.bin").write_bytes(b"c" * 4000)
    (folder / "digests.json").write_bytes(dump_digests(compute_digests(folder)))
    for path in folder.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    return folder


def _states(root: Path, most_nbytes: int | None = None) -> dict[str, FileState]:
    return {each.path: each.state for each in file_states(root, most_nbytes=most_nbytes).files}


def test_all_is_verified_where_it_is_as_recorded(root: Path) -> None:
    found = file_states(root, most_nbytes=None)
    assert {each.state for each in found.files} == {FileState.VERIFIED}
    assert [(each.path, each.nbytes) for each in found.files] == [
        ("manifest.json", 2),
        ("v/a.bin", 1000),
        ("v/b.bin", 2000),
        ("w/c.bin", 4000),
    ]
    assert found.package_digest == verify_package(root).package_digest


@pytest.mark.parametrize("most_nbytes", [None, 10_000, 6_900])
def test_what_differs_is_told_with_the_reason(root: Path, most_nbytes: int | None) -> None:
    (root / "v" / "a.bin").write_bytes(b"x" * 1000)
    (root / "v" / "b.bin").unlink()
    (root / "more.txt").write_text("more")
    found = {each.path: each for each in file_states(root, most_nbytes=most_nbytes).files}
    assert found["v/a.bin"].state is FileState.CHANGED
    assert found["v/a.bin"].message == "its bytes are not those recorded"
    assert found["v/b.bin"].state is FileState.MISSING
    assert (found["more.txt"].state, found["more.txt"].nbytes) == (FileState.EXTRA, 4)
    assert found["manifest.json"].state is FileState.VERIFIED


@pytest.mark.parametrize("most_nbytes", [None, 3_500])
def test_what_a_sparse_package_leaves_out_is_absent(root: Path, most_nbytes: int | None) -> None:
    shutil.rmtree(root / "w")
    assert _states(root, most_nbytes)["w/c.bin"] is FileState.ABSENT
    assert _states(root, most_nbytes)["v/b.bin"] is FileState.VERIFIED


def test_beyond_the_budget_files_are_not_read(root: Path) -> None:
    assert _states(root, 1500) == {
        "manifest.json": FileState.VERIFIED,
        "v/a.bin": FileState.VERIFIED,
        "v/b.bin": FileState.NOT_READ,
        "w/c.bin": FileState.NOT_READ,
    }
    (root / "w" / "c.bin").write_bytes(b"c" * 4001)
    found = {each.path: each for each in file_states(root, most_nbytes=1500).files}
    assert found["w/c.bin"].state is FileState.CHANGED
    assert found["w/c.bin"].message == "it has 4001 bytes instead of 4000"


def test_a_digest_remembered_of_a_file_counts_until_the_file_changes(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ortpkg.foundations.storage.file_stamp._LEAST_AGE_NS", 0)
    cache = DigestCache(root)
    (hashed,) = hash_files({"w/c.bin": root / "w" / "c.bin"}).values()
    assert not isinstance(hashed, OSError)
    cache.add("w/c.bin", hashed, now_ns())
    cache.write()
    assert _states(root, 1500)["w/c.bin"] is FileState.KNOWN
    (root / "w" / "c.bin").write_bytes(b"d" * 4000)
    assert _states(root, 1500)["w/c.bin"] is FileState.NOT_READ
    assert _states(root)["w/c.bin"] is FileState.CHANGED


def test_no_more_is_hashed_than_the_budget_allows(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def noted(*arguments: object) -> object:
        found = hash_recorded(*arguments)  # type: ignore[arg-type]
        read.extend(found)
        return found

    monkeypatch.setattr(module, "hash_recorded", noted)
    file_states(root, most_nbytes=5000)
    assert sum((root / name).stat().st_size for name in read) <= 5000
    assert read == ["manifest.json", "v/a.bin", "v/b.bin"]


def test_without_digests_nothing_can_be_compared(root: Path) -> None:
    (root / "digests.json").unlink()
    found = file_states(root, most_nbytes=None)
    assert found.files == ()
    assert found.notes == ("unverified: there is no digests.json, so nothing can be compared",)


def test_a_damaged_record_is_said(root: Path) -> None:
    (root / "digests.json").write_text("{")
    with pytest.raises(PackageFormatError):
        file_states(root, most_nbytes=None)
    document = {"schema_version": "1.0", "algorithm": "sha256", "files": {}, "package": "0" * 64}
    (root / "digests.json").write_text(json.dumps(document))
    assert _states(root)["digests.json"] is FileState.CHANGED
