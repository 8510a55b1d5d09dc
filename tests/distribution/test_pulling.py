"""Pulled packages are folders of their own, which share blocks with the store where they can."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

import ortpkg
from ortpkg.distribution.pulling import pull
from ortpkg.distribution.store.package_store import PackageStore
from ortpkg.distribution.variant_choice import InstallWishes
from ortpkg.foundations.errors import AuthoringError, StoreError
from ortpkg.foundations.storage.file_operations import FileOperations, Readable
from ortpkg.foundations.storage.hashing import FileDigest, Progress

CPU = InstallWishes(profiles=("plain-server",))
#: For documents, and what has to be to spare.
ROOM_NBYTES = 110_000
MODEL = "models/classifier/cpu-fp32/model.onnx"


class SharingDisk(FileOperations):
    """A disk that shares blocks, and has room for documents alone."""

    def free_nbytes(self, _: Path) -> int:
        return ROOM_NBYTES

    def clone(self, source: Path, target: Path) -> None:
        shutil.copyfile(source, target)

    def copy_stream(
        self,
        stream: Readable,
        target: Path,
        *,
        nbytes: int,
        name: str,
        progress: Progress | None = None,
    ) -> FileDigest:
        raise AssertionError(f"{name} is copied")


class FullDisk(FileOperations):
    """A disk that shares nothing, and has room for documents alone."""

    def free_nbytes(self, _: Path) -> int:
        return ROOM_NBYTES

    def clone(self, source: Path, target: Path) -> None:
        raise OSError(errno.ENOTTY, os.strerror(errno.ENOTTY), str(target))


def test_where_blocks_are_shared_nothing_is_copied_and_no_room_is_needed(
    published_digits: Path, store: PackageStore, tmp_path: Path
) -> None:
    root = tmp_path / "mine.ortpackage"
    pull(f"oci-layout:{published_digits}", root, wishes=CPU, operations=SharingDisk())

    assert ortpkg.verify(root).is_intact
    assert os.access(root / MODEL, os.W_OK)


def test_where_files_are_copied_there_has_to_be_room_for_all(
    published_digits: Path, store: PackageStore, tmp_path: Path
) -> None:
    root = tmp_path / "mine.ortpackage"
    with pytest.raises(AuthoringError, match="not enough space on the disk"):
        pull(f"oci-layout:{published_digits}", root, wishes=CPU, operations=FullDisk())

    assert [path.name for path in tmp_path.iterdir() if "mine" in path.name] == []


@pytest.mark.parametrize("operations", [SharingDisk(), FileOperations()])
def test_a_blob_that_was_damaged_before_is_fetched_again(
    published_digits: Path, store: PackageStore, tmp_path: Path, operations: FileOperations
) -> None:
    reference = f"oci-layout:{published_digits}"
    report = pull(reference, tmp_path / "first", wishes=CPU)
    _damage(store.blobs.path(report.plan.content.files[MODEL].digest))

    assert pull(reference, tmp_path / "second", wishes=CPU, operations=operations).moved_nbytes > 0
    assert ortpkg.verify(tmp_path / "second").is_intact


@pytest.mark.parametrize("shares", [True, False])
def test_a_blob_that_is_damaged_meanwhile_is_not_pulled(
    published_digits: Path, store: PackageStore, tmp_path: Path, shares: bool
) -> None:
    """Between the look at the store and the copy, when the first folder is made."""
    reference = f"oci-layout:{published_digits}"
    report = pull(reference, tmp_path / "first", wishes=CPU)
    blob = store.blobs.path(report.plan.content.files[MODEL].digest)

    class Damaging(SharingDisk if shares else FileOperations):  # type: ignore[misc]
        def make_directory(self, path: Path) -> None:
            super().make_directory(path)
            _damage(blob)

    with pytest.raises(StoreError, match=r"model\.onnx' was damaged in the store"):
        pull(reference, tmp_path / "second", wishes=CPU, operations=Damaging())
    assert not (tmp_path / "second").exists()
    assert pull(reference, tmp_path / "second", wishes=CPU).moved_nbytes > 0


def _damage(blob: Path) -> None:
    blob.chmod(0o644)
    blob.write_bytes(b"x" * blob.stat().st_size)
