"""Blobs appear whole and verified, or not at all, however often their way there breaks."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ortpkg.distribution.registry.repository import RangeNotSupportedError
from ortpkg.distribution.store import blob_store
from ortpkg.distribution.store.package_store import PackageStore
from ortpkg.foundations.errors import LayerMismatchError, StoreError
from ortpkg.foundations.storage import digest_cache
from ortpkg.foundations.storage.hashing import FileDigest, hash_file
from tests.store.store_packages import (
    ConnectionBrokenError,
    Source,
    descriptor_of,
    digest_of,
    receive,
)

CONTENT = bytes(range(100))


def _parts(store: PackageStore) -> list[Path]:
    return sorted((store.root / "partial").iterdir())


def test_a_blob_is_read_only_under_its_digest(store: PackageStore) -> None:
    told: list[int] = []

    nbytes = store.blobs.receive(
        descriptor_of(CONTENT), Source(CONTENT).read, source="s", progress=told.append
    )

    path = store.root / "blobs" / "sha256" / descriptor_of(CONTENT).sha256
    assert nbytes == sum(told) == 100
    assert path == store.blobs.path(digest_of(CONTENT))
    assert path.read_bytes() == CONTENT
    assert stat.S_IMODE(path.stat().st_mode) == 0o444
    assert _parts(store) == []
    assert list(store.blobs.digests()) == [digest_of(CONTENT)]


def test_a_blob_that_is_there_is_not_fetched(store: PackageStore) -> None:
    receive(store, CONTENT)
    source = Source(CONTENT)

    assert store.blobs.receive(descriptor_of(CONTENT), source.read, source="s") == 0
    assert source.offsets == []


def test_a_blob_that_gets_another_name_while_it_is_looked_at_is_not_damaged(
    store: PackageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process makes a package of it: the file's time of change is another one then."""
    receive(store, CONTENT)

    def linked_and_hashed(path: Path) -> FileDigest:
        (tmp_path / "another").hardlink_to(path)
        return hash_file(path)

    monkeypatch.setattr(digest_cache, "hash_file", linked_and_hashed)
    before = store.blobs.path(digest_of(CONTENT)).stat().st_ino

    receive(store, CONTENT)

    assert store.blobs.path(digest_of(CONTENT)).stat().st_ino == before
    assert (tmp_path / "another").exists()


def test_after_a_break_the_rest_is_fetched(store: PackageStore) -> None:
    broken = Source(CONTENT, breaks_at=40)
    with pytest.raises(ConnectionBrokenError):
        store.blobs.receive(descriptor_of(CONTENT), broken.read, source="s")
    assert not store.blobs.has(digest_of(CONTENT))
    whole = Source(CONTENT)
    told: list[int] = []

    nbytes = store.blobs.receive(
        descriptor_of(CONTENT), whole.read, source="s", progress=told.append
    )

    assert whole.offsets == [40]
    assert (nbytes, told[0], sum(told)) == (60, 40, 100)
    assert store.blobs.path(digest_of(CONTENT)).read_bytes() == CONTENT


@pytest.mark.parametrize("kind", ["link", "hard link", "pipe", "folder"])
def test_what_is_no_plain_part_of_ours_is_not_written_through(
    store: PackageStore, tmp_path: Path, kind: str
) -> None:
    own = tmp_path / "own"
    own.write_bytes(CONTENT[:40])
    receive(store, b"other")  # it is a store now
    part = store.root / "partial" / f"{descriptor_of(CONTENT).sha256}.part"
    part.parent.mkdir(exist_ok=True)
    if kind == "link":
        part.symlink_to(own)
    elif kind == "hard link":
        part.hardlink_to(own)
    elif kind == "pipe":
        os.mkfifo(part)
    else:
        part.mkdir()

    receive(store, CONTENT)

    assert own.read_bytes() == CONTENT[:40]
    assert store.blobs.path(digest_of(CONTENT)).read_bytes() == CONTENT
    assert _parts(store) == []


def test_what_a_killed_process_left_is_gone_on_from(store: PackageStore) -> None:
    child = os.fork()
    if child == 0:

        def read_and_die(offset: int) -> object:
            def chunks() -> object:
                yield CONTENT[:30]
                os._exit(9)

            return contextlib.nullcontext(chunks())

        store.blobs.receive(descriptor_of(CONTENT), read_and_die, source="s")  # type: ignore[arg-type]
    os.waitpid(child, 0)
    (left,) = _parts(store)
    left.write_bytes(CONTENT[:30])  # what it wrote may not have left its memory
    whole = Source(CONTENT)

    store.blobs.receive(descriptor_of(CONTENT), whole.read, source="s")

    assert whole.offsets == [30]
    assert _parts(store) == []


def test_what_another_process_works_at_is_left_to_it(
    store: PackageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blob_store, "_STALLED_S", 0.1)  # it brings nothing while it is asked
    outer = Source(CONTENT)
    inner = Source(CONTENT)

    def read_while_another_does(offset: int) -> object:
        if not inner.offsets:
            store.blobs.receive(descriptor_of(CONTENT), inner.read, source="s")
        return outer.read(offset)

    store.blobs.receive(descriptor_of(CONTENT), read_while_another_does, source="s")  # type: ignore[arg-type]

    assert inner.offsets == outer.offsets == [0]
    assert store.blobs.path(digest_of(CONTENT)).read_bytes() == CONTENT
    assert _parts(store) == []


def test_what_another_process_brings_is_waited_for(store: PackageStore) -> None:
    is_begun = threading.Event()

    def slow(offset: int) -> object:
        def chunks() -> Iterator[bytes]:
            is_begun.set()
            for start in range(0, 100, 10):
                time.sleep(0.01)
                yield CONTENT[start : start + 10]

        return contextlib.nullcontext(chunks())

    first = threading.Thread(
        target=store.blobs.receive, args=(descriptor_of(CONTENT), slow), kwargs={"source": "s"}
    )
    first.start()
    assert is_begun.wait(10)
    source = Source(CONTENT)

    assert store.blobs.receive(descriptor_of(CONTENT), source.read, source="s") == 0
    assert source.offsets == []
    first.join()


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (CONTENT[:-1] + b"x", "its bytes have another digest"),
        (CONTENT[:-1], "99 bytes arrived instead of 100"),
        (CONTENT + b"x", "more than 100 bytes arrived"),
    ],
)
def test_of_wrong_content_nothing_is_kept(store: PackageStore, wrong: bytes, why: str) -> None:
    with pytest.raises(LayerMismatchError, match=why) as caught:
        store.blobs.receive(descriptor_of(CONTENT), Source(wrong).read, source="oci://host/x")

    assert caught.value.expected == caught.value.layer == digest_of(CONTENT)
    assert caught.value.registry == "oci://host/x"
    assert not store.blobs.has(digest_of(CONTENT))
    assert _parts(store) == []


def test_a_damaged_beginning_is_fetched_anew(store: PackageStore) -> None:
    with pytest.raises(ConnectionBrokenError):
        store.blobs.receive(descriptor_of(CONTENT), Source(CONTENT, breaks_at=40).read, source="s")
    (part,) = _parts(store)
    part.write_bytes(b"x" * 40)
    whole = Source(CONTENT)
    told: list[int] = []

    store.blobs.receive(descriptor_of(CONTENT), whole.read, source="s", progress=told.append)

    assert whole.offsets == [40, 0]
    assert sum(told) == 100
    assert store.blobs.path(digest_of(CONTENT)).read_bytes() == CONTENT


def test_where_nothing_can_be_sent_from_the_middle_all_is_fetched(store: PackageStore) -> None:
    with pytest.raises(ConnectionBrokenError):
        store.blobs.receive(descriptor_of(CONTENT), Source(CONTENT, breaks_at=40).read, source="s")
    whole = Source(CONTENT)

    def read(offset: int) -> object:
        if offset:
            raise RangeNotSupportedError
        return whole.read(offset)

    assert store.blobs.receive(descriptor_of(CONTENT), read, source="s") == 100  # type: ignore[arg-type]


def test_small_content_is_added_and_read(store: PackageStore) -> None:
    digest = store.blobs.add_bytes(CONTENT)

    assert digest == digest_of(CONTENT) == store.blobs.add_bytes(CONTENT)
    assert store.blobs.read_bytes(digest, most_nbytes=100) == CONTENT
    with store.blobs.open(digest) as file:
        assert file.read() == CONTENT
    with pytest.raises(StoreError, match="more than 99 bytes"):
        store.blobs.read_bytes(digest, most_nbytes=99)


def test_a_damaged_blob_is_told_and_taken_out(store: PackageStore) -> None:
    digest = store.blobs.add_bytes(CONTENT)
    assert store.blobs.check(digest)
    path = store.blobs.path(digest)
    path.chmod(0o644)
    path.write_bytes(b"x")

    with pytest.raises(StoreError, match="is damaged"):
        store.blobs.read_bytes(digest, most_nbytes=100)
    assert not store.blobs.check(digest)
    assert not store.blobs.has(digest)


def test_a_folder_in_the_place_of_a_blob_is_named(store: PackageStore) -> None:
    path = store.blobs.path(digest_of(CONTENT))
    path.mkdir(parents=True)

    for check in (store.blobs.is_sound, store.blobs.check):
        with pytest.raises(StoreError, match="cannot check the blob") as raised:
            check(digest_of(CONTENT))
        assert path.name in str(raised.value)


def test_a_blob_that_is_not_there_is_an_error(store: PackageStore) -> None:
    with pytest.raises(StoreError, match="has no blob sha256:"), store.blobs.open(digest_of(b"")):
        pass
    with pytest.raises(ValueError, match="64 lower-case hex digits"):
        store.blobs.has("../../etc/passwd")
