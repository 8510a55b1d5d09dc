"""The cache of digests: what it believes, what it keeps, and that damage to it does not matter."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ortpkg.foundations.storage import digest_cache
from ortpkg.foundations.storage.digest_cache import DigestCache, file_sha256
from ortpkg.foundations.storage.hashing import HashedFile, hash_file_with_stamp

HOUR_NS = 3_600_000_000_000


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "facts"


@pytest.fixture
def hashed(tmp_path: Path) -> HashedFile:
    (tmp_path / "f").write_bytes(b"abc")
    return hash_file_with_stamp(tmp_path / "f")


def remember(root: Path, hashed: HashedFile, *, file: str = "f", age_ns: int = HOUR_NS) -> None:
    assert hashed.stamp is not None
    cache = DigestCache(root)
    cache.add(file, hashed, max(hashed.stamp.mtime_ns, hashed.stamp.ctime_ns) + age_ns)
    cache.write()


def test_a_digest_is_known_to_the_next_process_while_the_stamp_is_the_same(
    tmp_path: Path, hashed: HashedFile
) -> None:
    remember(tmp_path, hashed)

    assert hashed.stamp is not None
    assert DigestCache(tmp_path).digest("f", hashed.stamp) == hashed.digest


@pytest.mark.parametrize("part", ["device", "inode", "nbytes", "mtime_ns", "ctime_ns"])
def test_any_change_of_the_stamp_is_a_miss(tmp_path: Path, hashed: HashedFile, part: str) -> None:
    remember(tmp_path, hashed)

    assert hashed.stamp is not None
    changed = hashed.stamp._replace(**{part: getattr(hashed.stamp, part) + 1})
    assert DigestCache(tmp_path).digest("f", changed) is None
    assert DigestCache(tmp_path).digest("other", hashed.stamp) is None
    assert DigestCache(tmp_path / "other").digest("f", hashed.stamp) is None


@pytest.mark.parametrize(
    "age_ns", [0, 1_999_999_999, -HOUR_NS], ids=["just written", "under 2 s", "from the future"]
)
def test_a_young_file_is_never_remembered(
    tmp_path: Path, hashed: HashedFile, age_ns: int, cache: Path
) -> None:
    remember(tmp_path, hashed, age_ns=age_ns)

    assert not cache.exists()


def test_a_file_that_changed_while_it_was_read_is_not_remembered(
    tmp_path: Path, hashed: HashedFile, cache: Path
) -> None:
    entry = DigestCache(tmp_path)
    entry.add("f", replace(hashed, stamp=None), time.time_ns() + HOUR_NS)
    entry.write()

    assert not cache.exists()


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: text.replace('"files"', '"fires"'),
        lambda text: json.dumps(
            json.loads(text) | {"value": {"files": [1, [2, 3], [[], 1]], "needs": 2}}
        ),
        lambda text: json.dumps(
            json.loads(text) | {"value": {"files": [["f", "abc"]], "needs": [["x", [1]]]}}
        ),
        lambda text: json.dumps(json.loads(text) | {"schema_version": 99}),
    ],
    ids=["empty", "cut", "key", "types", "entries", "version"],
)
def test_a_damaged_cache_is_an_empty_one(
    tmp_path: Path, hashed: HashedFile, cache: Path, damage: Callable[[str], str]
) -> None:
    remember(tmp_path, hashed)
    (path,) = cache.iterdir()
    path.write_text(damage(path.read_text()))

    assert hashed.stamp is not None
    assert DigestCache(tmp_path).digest("f", hashed.stamp) is None
    assert DigestCache(tmp_path).needs("x") is None
    remember(tmp_path, hashed)
    assert DigestCache(tmp_path).digest("f", hashed.stamp) == hashed.digest


def test_the_oldest_files_go_when_there_are_too_many(
    tmp_path: Path, hashed: HashedFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digest_cache, "_MOST_FILES", 2)
    for file in ("a", "b", "a", "c"):
        remember(tmp_path, hashed, file=file)

    assert hashed.stamp is not None
    known = [file for file in "abc" if DigestCache(tmp_path).digest(file, hashed.stamp)]
    assert known == ["a", "c"]


def test_the_oldest_packages_go_when_there_are_too_many(
    tmp_path: Path, hashed: HashedFile, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digest_cache, "_MOST_PACKAGES", 2)
    for index in range(4):
        remember(tmp_path / str(index), hashed)
        for path in cache.iterdir():
            os.utime(path, ns=(path.stat().st_mtime_ns - 10**9,) * 2)

    assert hashed.stamp is not None
    known = [
        index for index in range(4) if DigestCache(tmp_path / str(index)).digest("f", hashed.stamp)
    ]
    assert known == [2, 3]


def test_what_a_model_names_is_remembered_by_its_digest(tmp_path: Path) -> None:
    entry = DigestCache(tmp_path)
    entry.add_needs("a" * 64, ["w.bin"])
    entry.add_needs("b" * 64, [])
    entry.write()

    again = DigestCache(tmp_path)
    assert (again.needs("a" * 64), again.needs("b" * 64), again.needs("c" * 64)) == (
        ("w.bin",),
        (),
        None,
    )


def test_a_cache_that_cannot_be_written_does_not_matter(
    tmp_path: Path, hashed: HashedFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"no directory")
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(tmp_path / "file"))

    remember(tmp_path, hashed)

    assert hashed.stamp is not None
    assert DigestCache(tmp_path).digest("f", hashed.stamp) is None
    assert (tmp_path / "file").read_bytes() == b"no directory"


def test_a_digest_is_remembered_while_the_file_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digest_cache, "_LEAST_REMEMBERED_NBYTES", 0)
    monkeypatch.setattr("ortpkg.foundations.storage.file_stamp._LEAST_AGE_NS", 0)
    path = tmp_path / "w.bin"
    path.write_bytes(b"abc")
    first = file_sha256(path)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", lambda *_arguments: pytest.fail("read again"))
        patch.setattr(digest_cache, "read_fact", lambda *_arguments: first)
        assert file_sha256(path) == first
    path.unlink()
    path.write_bytes(b"abd")
    assert file_sha256(path) not in ("", first)
    assert file_sha256(tmp_path) == file_sha256(tmp_path / "absent") == ""
