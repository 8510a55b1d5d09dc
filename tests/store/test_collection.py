"""gc takes what nobody needs, and nothing else."""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ortpkg.distribution.store.collection import CollectedKind, CollectionReport, CollectionRules
from ortpkg.distribution.store.leases import announce_collection
from ortpkg.distribution.store.package_store import PackageStore
from ortpkg.foundations.errors import StoreError
from ortpkg.foundations.storage.file_operations import FileOperations
from tests.store.store_packages import (
    AT_ONCE,
    ConnectionBrokenError,
    Source,
    descriptor_of,
    expected_package,
    install,
    make_old,
    package,
    read_package,
    receive,
    receive_blobs,
)


def _removed(report: CollectionReport, kind: CollectedKind) -> list[str]:
    return [each.what for each in report.removed if each.kind is kind]


def _nbytes(root: Path) -> int:
    inodes = {}
    for path in root.rglob("*"):
        status = path.lstat()
        if path.is_file():
            inodes[status.st_ino] = status.st_size
    return sum(inodes.values())


def test_the_newest_generations_stay_and_the_older_go_with_their_files(
    store: PackageStore,
) -> None:
    for version in (1, 2, 3, 4):
        install(store, version)

    report = store.gc(replace(AT_ONCE, keep=2))

    assert _removed(report, CollectedKind.GENERATION) == [
        "digits generation 2",
        "digits generation 1",
    ]
    assert [each.number for each in store.history("digits")] == [4, 3]
    for version in (3, 4):
        with store.open("digits", tag=str(version)) as opened:
            assert read_package(opened.root) == expected_package(version)
    trees = list((store.root / "packages").iterdir())
    assert len(trees) == 2
    assert len(list(store.blobs.digests())) == 5  # two manifests, two of "a", one of "b"


def test_a_dry_run_says_the_same_and_changes_nothing(store: PackageStore) -> None:
    for version in (1, 2):
        install(store, version)
    before = sorted(store.root.rglob("*"))

    foretold = store.gc(AT_ONCE, dry_run=True)

    assert sorted(store.root.rglob("*")) == before
    nbytes = _nbytes(store.root)
    assert store.gc(AT_ONCE) == foretold
    assert foretold.nbytes_freed > 0
    records = 800  # of generations, which are not counted
    assert nbytes - _nbytes(store.root) - foretold.nbytes_freed < records


def test_what_is_current_stays_however_old(store: PackageStore) -> None:
    for version in (1, 2, 3):
        install(store, version)
    store.activate("digits", 1)

    store.gc(AT_ONCE)

    assert [each.number for each in store.history("digits")] == [3, 1]
    with store.open("digits") as opened:
        assert read_package(opened.root) == expected_package(1)


def test_what_is_open_stays(store: PackageStore) -> None:
    install(store, 1)
    with store.open("digits") as opened:
        install(store, 2)
        report = store.gc(AT_ONCE)
        assert read_package(opened.root) == expected_package(1)
        assert [each.why for each in report.kept] == ["in use"]
        store.uninstall("digits")
        store.gc(AT_ONCE)
        assert read_package(opened.root) == expected_package(1)
    store.gc(AT_ONCE)
    assert list(store.blobs.digests()) == []
    assert list((store.root / "packages").iterdir()) == []


def test_what_an_installation_holds_stays(store: PackageStore) -> None:
    content = package(1)
    with store.hold(trees=[content.key], digests=content.all_blobs):
        receive_blobs(store, 1)
        store.gc(AT_ONCE)
        store.make_tree(content)
        store.gc(AT_ONCE)
        store.install("digits", content)
    store.gc(AT_ONCE)
    with store.open("digits") as opened:
        assert read_package(opened.root) == expected_package(1)


def test_what_is_young_stays(store: PackageStore) -> None:
    receive(store, b"blob")
    content = package(1)
    receive_blobs(store, 1)
    store.make_tree(content)
    for version in (2, 3):
        install(store, version)
    rules = CollectionRules(keep=1, grace_s=3600)

    report = store.gc(rules)

    assert report.removed == ()
    assert {(each.kind, each.why) for each in report.kept} == {
        (CollectedKind.GENERATION, "young"),
        (CollectedKind.PACKAGE, "young"),
        (CollectedKind.BLOB, "young"),
    }
    for path in (*(store.root / "blobs/sha256").iterdir(), store.root / "packages" / content.key):
        make_old(path)
    report = store.gc(rules)
    assert _removed(report, CollectedKind.PACKAGE) == [content.key]
    assert descriptor_of(b"blob").digest in _removed(report, CollectedKind.BLOB)


def test_an_installation_from_before_the_clock_was_set_back_is_not_young_for_ever(
    store: PackageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        next_week = time.time() + 7 * 24 * 3600
        patched.setattr(time, "time", lambda: next_week)
        install(store, 1)
    install(store, 2)

    assert _removed(store.gc(AT_ONCE), CollectedKind.GENERATION) == ["digits generation 1"]


def test_a_folder_beside_generations_is_none(store: PackageStore) -> None:
    install(store, 1)
    generations = store.root / "names/digits/generations"
    shutil.copytree(generations / "0000001", generations / "0000001-copy")

    assert [generation.number for generation in store.history("digits")] == [1]
    install(store, 2)
    store.gc(AT_ONCE)
    assert [generation.number for generation in store.history("digits")] == [2]
    assert (generations / "0000001-copy").is_dir()


def test_what_ran_lately_stays_where_that_is_wanted(store: PackageStore) -> None:
    first = install(store, 1)
    for version in (2, 3):
        install(store, version)
    store.note_use(first, "m/a")

    report = store.gc(replace(AT_ONCE, used_within_s=3600))

    assert _removed(report, CollectedKind.GENERATION) == ["digits generation 2"]
    assert [each.number for each in store.history("digits")] == [3, 1]


def test_a_partial_download_stays_for_a_while(store: PackageStore) -> None:
    content = bytes(100)
    with pytest.raises(ConnectionBrokenError):
        store.blobs.receive(descriptor_of(content), Source(content, breaks_at=50).read, source="s")
    (part,) = (store.root / "partial").iterdir()

    report = store.gc()
    assert report.removed == ()
    assert [(each.what, each.why) for each in report.kept] == [
        (part.name, "a download may go on with it; gc --now removes it")
    ]
    at_once = store.gc(replace(AT_ONCE, partial_age_s=-1.0), dry_run=True)
    assert [(each.kind, each.nbytes) for each in at_once.removed] == [(CollectedKind.PARTIAL, 50)]
    make_old(part)
    report = store.gc()

    assert [(each.kind, each.nbytes) for each in report.removed] == [(CollectedKind.PARTIAL, 50)]
    assert report.nbytes_freed == 50
    assert not part.exists()


def test_a_download_that_is_under_way_is_never_taken(store: PackageStore) -> None:
    content = bytes(100)
    source = Source(content)

    def read_while_it_is_collected(offset: int) -> object:
        store.gc(AT_ONCE)
        return source.read(offset)

    store.blobs.receive(descriptor_of(content), read_while_it_is_collected, source="s")  # type: ignore[arg-type]
    assert store.blobs.has(descriptor_of(content).digest)


def test_what_killed_processes_left_goes(store: PackageStore) -> None:
    install(store, 1)
    gone = "-".join([*next(iter(_names(store))).split("-")[:3], str(2**31 - 5), "0123456789abcdef"])
    tree = store.root / "staging" / gone
    tree.mkdir()
    (tree / "file").write_bytes(b"12345")
    (store.root / f".ortpkg-{gone}").write_bytes(b"1")
    (store.root / "leases" / f"{gone}.lease").write_bytes(b"")
    (store.root / "leases" / f"{gone}.gc").write_bytes(b"{}")

    report = store.gc()

    assert len(report.removed) == 4
    assert report.nbytes_freed == 8
    assert not any(gone in path.name for path in store.root.rglob("*"))


def _names(store: PackageStore) -> list[str]:
    with store.hold():
        return [path.stem for path in (store.root / "leases").iterdir()]


def test_where_a_record_is_damaged_nothing_is_taken(store: PackageStore) -> None:
    for version in (1, 2):
        install(store, version)
    record = store.root / "names/digits/generations/0000001/generation.json"
    record.write_bytes(b"")
    blobs = set(store.blobs.digests())

    with pytest.raises(StoreError, match="is damaged"):
        store.gc(AT_ONCE)
    assert set(store.blobs.digests()) == blobs


def test_an_installation_that_was_never_in_use_goes(store: PackageStore) -> None:
    install(store, 1)
    (store.root / "names/digits/current.json").unlink()

    store.gc(AT_ONCE)

    assert list(store.blobs.digests()) == []
    assert store.packages() == ()


@pytest.mark.parametrize("is_reused", [False, True], ids=["new number", "number used before"])
def test_a_generation_that_comes_while_it_is_decided_what_goes_keeps_its_tree(
    store: PackageStore, monkeypatch: pytest.MonkeyPatch, *, is_reused: bool
) -> None:
    """Its tree was nobody's when that was looked at first, and is an older version's by then."""
    install(store, 1)
    store.uninstall("digits")
    install(store, 3, name="letters")
    if is_reused:
        install(store, 4, name="letters")  # generation 1 of letters is to go

    def announced_late(*arguments: Any) -> Any:
        if is_reused:
            store.uninstall("letters")
        for version in (1, 2):
            install(store, version, name="letters")
        return announce_collection(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr("ortpkg.distribution.store.collection.announce_collection", announced_late)
        store.gc(AT_ONCE)

    assert {generation.tag for generation in store.history("letters")} >= {"1", "2"}
    for version in (1, 2):
        with store.open("letters", tag=str(version)) as opened:
            assert read_package(opened.root) == expected_package(version)
            assert all(store.blobs.has(digest) for digest in opened.receipt.blobs)
    store.gc(AT_ONCE)
    assert [generation.tag for generation in store.history("letters")] == ["2"]


def test_a_full_disk_is_made_room_on(store: PackageStore) -> None:
    class Full(FileOperations):
        def before(self, operation: str, path: Path) -> None:
            if operation in ("write", "fsync", "make_directory"):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for version in (1, 2):
        install(store, version)
    full = PackageStore(store.root, operations=Full())

    with full.open("digits") as opened:
        assert opened.lease.is_recorded
        assert store.gc(AT_ONCE).removed == ()  # its lease has no room to say what it holds
    assert full.gc(AT_ONCE).nbytes_freed > 0
    with store.open("digits") as opened:
        assert read_package(opened.root) == expected_package(2)


def test_files_of_others_are_left_alone(store: PackageStore) -> None:
    install(store, 1)
    tree = store.root / "packages" / store.find("digits").tree
    strangers = [
        store.root / "blobs/sha256/README",
        store.root / "names/.DS_Store",
        store.root / "packages/.DS_Store",
        tree.parent / "notes.txt",
    ]
    for path in strangers:
        path.write_text("mine")

    assert store.gc(AT_ONCE).removed == ()
    store.uninstall("digits")
    store.gc(AT_ONCE)

    assert [path.read_text() for path in strangers] == ["mine"] * 4
    assert list(store.blobs.digests()) == []


def test_a_folder_in_the_place_of_a_record_is_told(store: PackageStore) -> None:
    install(store, 1)
    record = store.root / "names/digits/current.json"
    record.unlink()
    record.mkdir()

    with pytest.raises(StoreError, match=r"current\.json' is damaged: delete it"):
        store.open("digits")


def test_what_a_project_has_locked_stays_while_its_lock_file_is_there(
    store: PackageStore, tmp_path: Path
) -> None:
    locked = install(store, 1)
    for version in (2, 3):
        install(store, version)
    lock = tmp_path / "ortpkg.lock"
    lock.write_text("")
    store.keep_for_project(lock, [locked.digest])

    report = store.gc(AT_ONCE)

    assert _removed(report, CollectedKind.GENERATION) == ["digits generation 2"]
    kept = [each for each in report.kept if each.kind is CollectedKind.GENERATION]
    assert [(each.what, each.why) for each in kept] == [
        ("digits generation 1", f"locked by '{lock}'")
    ]
    assert store.find("digits", digest=locked.digest) == locked

    lock.unlink()
    report = store.gc(AT_ONCE)

    assert _removed(report, CollectedKind.GENERATION) == ["digits generation 1"]
    assert list((store.root / "projects").iterdir()) == []


def test_a_lock_of_another_machine_counts_for_some_time_after_its_last_installation(
    store: PackageStore, tmp_path: Path
) -> None:
    locked = install(store, 1)
    install(store, 2)
    store.keep_for_project(tmp_path / "elsewhere", [locked.digest])
    (record,) = (store.root / "projects").iterdir()
    document = json.loads(record.read_text()) | {"machine": "another"}
    record.write_text(json.dumps(document))
    assert _removed(store.gc(AT_ONCE), CollectedKind.GENERATION) == []

    record.write_text(json.dumps(document | {"synced": 0}))
    assert _removed(store.gc(AT_ONCE), CollectedKind.GENERATION) == ["digits generation 1"]


@pytest.mark.parametrize(
    "record", ["{}", '{"lock": "a", "machine": "", "synced": 1, "digests": [1]}']
)
def test_while_a_record_of_a_project_is_damaged_nothing_is_removed(
    store: PackageStore, record: str
) -> None:
    for version in (1, 2):
        install(store, version)
    (store.root / "projects").mkdir()
    (store.root / "projects" / "0.json").write_text(record)

    with pytest.raises(StoreError, match=r"0\.json' is damaged: delete it"):
        store.gc(AT_ONCE)
    assert len(store.history("digits")) == 2
