"""A store on a disk that is full, read-only, somebody else's, in two parts, or slow to open."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ortpkg.distribution.store import tree_files
from ortpkg.distribution.store.package_store import PackageStore
from ortpkg.foundations.errors import StoreError
from ortpkg.foundations.storage.file_operations import FileOperations
from ortpkg.package.receipts import FileMode
from tests.store.store_packages import (
    AT_ONCE,
    Source,
    descriptor_of,
    expected_package,
    install,
    package,
    read_package,
)

_CHANGES: dict[str, Callable[[PackageStore], object]] = {
    "install": lambda store: install(store, 2),
    "receive a blob": lambda store: store.blobs.receive(
        descriptor_of(b"new"), Source(b"new").read, source="s"
    ),
    "add a blob": lambda store: store.blobs.add_bytes(b"new"),
    "activate": lambda store: store.activate("digits", 1),
    "uninstall": lambda store: store.uninstall("digits"),
    "collect": lambda store: store.gc(AT_ONCE),
}


class Failing(FileOperations):
    """Every change fails."""

    def __init__(self, error: int) -> None:
        self.error = error

    def before(self, operation: str, path: Path) -> None:
        raise OSError(self.error, os.strerror(self.error), str(path))


@pytest.mark.parametrize("change", _CHANGES)
@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (errno.ENOSPC, "its disk is full: free some space"),
        (errno.EDQUOT, "its disk is full: free some space"),
        (errno.EROFS, "it is on a read-only disk"),
        (errno.EACCES, "it may not be written by this user"),
        (errno.EIO, "its disk failed"),
    ],
)
def test_what_cannot_be_changed_says_why_not(
    tmp_path: Path, change: str, error: int, reason: str
) -> None:
    install(PackageStore(tmp_path), 1)
    before = read_package(tmp_path)

    with pytest.raises(StoreError, match=f"in the store '.*': {reason}") as caught:
        _CHANGES[change](PackageStore(tmp_path, operations=Failing(error)))

    assert "\n" not in str(caught.value)
    assert read_package(tmp_path) == before


def test_a_store_that_may_not_be_written_is_read(tmp_path: Path) -> None:
    install(PackageStore(tmp_path), 1)
    store = PackageStore(tmp_path, operations=Failing(errno.EROFS))

    with store.open("digits") as opened:
        assert read_package(opened.root) == expected_package(1)
        assert not opened.lease.is_recorded
        store.note_use(opened.generation, "m/a")
    assert [each.tag for each in store.packages()] == ["1"]
    assert [each.number for each in store.history("digits")] == [1]
    assert store.gc(AT_ONCE, dry_run=True).removed == ()


@pytest.mark.parametrize("place", ["file", "file/below", "dangling"])
def test_what_is_no_folder_is_no_store(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    store = PackageStore(tmp_path / place)

    uses: list[Callable[[], object]] = [lambda: install(store, 1)]
    if place != "file/below":  # there it is as if nothing were there yet
        uses += [store.packages, store.gc, lambda: store.open("digits")]
    for use in uses:
        with pytest.raises(StoreError, match="it is no folder, or lies in something that is none"):
            use()
    assert (tmp_path / "file").read_text() == "mine"


@contextmanager
def _another_disk(tmp_path: Path) -> Iterator[Path]:
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is one disk")
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


def test_a_store_in_two_parts_is_refused(tmp_path: Path) -> None:
    store = PackageStore(tmp_path / "store")
    install(store, 1)
    with _another_disk(tmp_path) as other:
        (store.root / "staging").rmdir()
        (store.root / "staging").symlink_to(other)
        with pytest.raises(StoreError, match="lies on another file system than the rest"):
            install(store, 2)
    assert [each.tag for each in store.packages()] == ["1"]


@pytest.mark.parametrize(
    ("refused", "is_linked", "mode"),
    [
        ((), True, FileMode.REFLINK),
        (("clone",), True, FileMode.HARD_LINK),
        (("clone", "link"), True, FileMode.COPY),
        (("clone",), False, FileMode.COPY),
    ],
)
def test_files_are_made_as_the_disk_can(
    tmp_path: Path, refused: tuple[str, ...], is_linked: bool, mode: FileMode
) -> None:
    class Able(FileOperations):
        def before(self, operation: str, path: Path) -> None:
            if operation in refused:
                raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

        def clone(self, source: Path, target: Path) -> None:
            self.before("clone", target)
            target.write_bytes(source.read_bytes())  # as far as a reader can tell

    store = PackageStore(tmp_path, operations=Able())
    install(store, 1)
    store.install("digits", package(1, is_linked=is_linked))

    with store.open("digits") as opened:
        assert opened.receipt.mode is mode
        weights = opened.root / "models/m/b/weights.bin"
        assert (weights.stat().st_nlink > 1) == (mode is FileMode.HARD_LINK)
        assert read_package(opened.root) == expected_package(1)


def test_a_blob_with_all_the_names_it_can_have_is_copied(tmp_path: Path) -> None:
    refused = [True]

    class Full(FileOperations):
        def before(self, operation: str, path: Path) -> None:
            if operation == "clone":
                raise OSError(errno.ENOTSUP, "")
            if operation == "link" and refused and refused.pop():
                raise OSError(errno.EMLINK, "")

    blobs = [tmp_path / name for name in "ab"]
    for blob in blobs:
        blob.write_bytes(blob.name.encode())
    maker = tree_files.FileMaker(Full(), is_linked=True)
    for blob in blobs:
        maker.make(blob, blob.with_suffix(".made"))

    assert [blob.with_suffix(".made").stat().st_nlink for blob in blobs] == [1, 2]
    assert [blob.with_suffix(".made").read_bytes() for blob in blobs] == [b"a", b"b"]
    assert maker.mode is FileMode.HARD_LINK


_LIST = """
import sys
opened = []
sys.addaudithook(lambda event, what: event == "open" and opened.append(str(what[0])))
from pathlib import Path
from ortpkg.distribution.store.installed_packages import InstalledPackages
store = InstalledPackages(Path(sys.argv[1]))
assert len(store.packages()) == 30
print(len([path for path in opened if path.startswith(sys.argv[1])]))
print(*sys.modules)
"""


def test_a_list_opens_one_file_for_each_package_and_loads_little(tmp_path: Path) -> None:
    store = PackageStore(tmp_path)
    install(store, 1, name="p0")
    for number in range(1, 30):
        store.install(f"p{number}", package(1))

    words = [sys.executable, "-c", _LIST, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)

    count, modules = done.stdout.splitlines()
    assert int(count) <= 30 + 1
    heavy = {"numpy", "onnx", "jsonschema", "hashlib", "logging", "ctypes", "shutil", "filelock"}
    assert not heavy & set(modules.split())
