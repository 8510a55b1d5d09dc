"""The folder that is a store: where what lies in it, how its small files are read and written."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ortpkg.errors import StoreError, quoted
from ortpkg.package.changes.store_guard import PACKAGES, STORE_MARK
from ortpkg.storage.file_operations import FileOperations
from ortpkg.store.process_names import new_name

_MARK_CONTENT = {"schema_version": "1.0"}
_LAYOUT = "oci-layout"
_LAYOUT_CONTENT = {"imageLayoutVersion": "1.0.0"}  # OCI image specification 1.1, image-layout.md
_TEMPORARY = ".ortpkg-"
_ATTEMPTS = 5
_OF_THE_DISK = frozenset({"lost+found"})
#: Receipts of packages with 100,000 files have less.
_MOST_NBYTES = 64 * 1024 * 1024

#: Others may have put a link or a pipe there, where they may write (leases of several users).
_FOR_READING = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
)

_FULL = "its disk is full: free some space (ortpkg gc), or name another folder in ORTPKG_STORE"
_NO_FOLDER = "it is no folder, or lies in something that is none: name another in ORTPKG_STORE"
_FORBIDDEN = "it may not be written by this user: name another folder in ORTPKG_STORE"
_REASONS = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EROFS: "it is on a read-only disk: name another folder in ORTPKG_STORE",
    errno.EACCES: _FORBIDDEN,
    errno.EPERM: _FORBIDDEN,
    errno.EXDEV: "a folder of it lies on another file system than the rest: a store is on one",
    errno.EEXIST: _NO_FOLDER,
    errno.ENOTDIR: _NO_FOLDER,
    errno.ESTALE: "its network file system lost it: try again",
    errno.EIO: "its disk failed",
}


@dataclass(frozen=True, slots=True)
class StoreFolder:
    """The folder of a store, which need not exist until something is put into it.

    Attributes:
        root: the folder; all that is written in it is relative to it, so that it can be moved.
        operations: how its files are changed.
    """

    root: Path
    operations: FileOperations

    @property
    def blobs(self) -> Path:
        """Content by SHA-256."""
        return self.root / "blobs" / "sha256"

    @property
    def partial(self) -> Path:
        """Content that has not all arrived."""
        return self.root / "partial"

    @property
    def packages(self) -> Path:
        """Trees: ``<manifest's SHA-256>/<which files, and how>/NAME.ortpackage``."""
        return self.root / PACKAGES

    @property
    def names(self) -> Path:
        """For each name its generations, and which is in use."""
        return self.root / "names"

    @property
    def leases(self) -> Path:
        """What processes hold that use the store."""
        return self.root / "leases"

    @property
    def uses(self) -> Path:
        """What ran when."""
        return self.root / "uses"

    @property
    def projects(self) -> Path:
        """Which versions projects have locked themselves on."""
        return self.root / "projects"

    @property
    def staging(self) -> Path:
        """What is being made, and what is being deleted."""
        return self.root / "staging"

    @property
    def exists(self) -> bool:
        """Whether there is a store already.

        StoreError for one that a newer ortpkg made, NotADirectoryError for what is no folder.
        """
        mark = read_json(self.root / STORE_MARK)
        if mark is None:
            if os.path.lexists(self.root) and not self.root.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, "", str(self.root))
            return False
        version = mark.get("schema_version")
        if not isinstance(version, str) or version.partition(".")[0] != "1":
            raise StoreError(
                f"{quoted(self.root)} is a store of schema_version {quoted(version)}; this ortpkg"
                " reads 1.x: use a newer one"
            )
        return True

    def prepare(self) -> None:
        """Makes the folder a store if it is none. Several processes may do so at once.

        StoreError for a folder in which other things lie.
        """
        if not self.exists:
            self.root.mkdir(parents=True, exist_ok=True)
            others = [
                name
                for name in sorted(os.listdir(self.root))  # noqa: PTH208 - names
                if not name.startswith(_TEMPORARY) and name not in _OF_THE_DISK
            ]
            if others and not self.exists:  # now it may be another process's
                raise StoreError(
                    f"{quoted(self.root)} is no store, and holds other things"
                    f" ({quoted(others[0])}); name an empty or a new folder in ORTPKG_STORE"
                )
            self.write_json(self.root / STORE_MARK, _MARK_CONTENT)
        if not (self.root / _LAYOUT).exists():
            self.write_json(self.root / _LAYOUT, _LAYOUT_CONTENT)

    def make_folder(self, folder: Path) -> None:
        """Makes a folder below the root, with those above it, durably."""
        if folder.is_dir():
            return
        if folder.parent != self.root:
            self.make_folder(folder.parent)
        self.operations.make_directory(folder)
        self.operations.fsync_directory(folder.parent)

    def write_json(self, path: Path, value: Mapping[str, Any]) -> None:
        """Writes a document anew, or for the first time, in one step."""
        content = dump_json(value)
        temporary = self.root / f"{_TEMPORARY}{new_name()}"
        try:
            self.operations.write_file(temporary, content)
            self.operations.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                self.operations.unlink(temporary)
            raise
        self.operations.fsync_directory(path.parent)

    def new_staging(self) -> Path:
        """A free name for what is to be made, or thrown away; nothing lies there yet."""
        self.make_folder(self.staging)
        return self.staging / new_name()

    def set_aside(self, path: Path) -> Path:
        """Takes a folder or file out of its place in one step; returns where it is now.

        Who called deletes it there; what a killed process did not delete, gc does.
        FileNotFoundError where there is none.
        """
        place = self.new_staging()
        self.operations.replace(path, place)
        return place

    def discard(self, path: Path) -> None:
        """Deletes a folder or file that nobody shall see half of.

        It is no error where there is none. Once it is out of its place it is gone; what cannot be
        deleted there is gc's.
        """
        try:
            place = self.set_aside(path)
        except FileNotFoundError:
            return
        for _ in range(_ATTEMPTS):
            try:
                self.operations.remove_tree(place)
            except OSError as error:
                if error.errno != errno.ENOTEMPTY:
                    return
            else:
                return  # else a process that had looked it up before put something into it

    def remove_quietly(self, path: Path) -> None:
        """Removes what did not become what it was to be, as far as that can be done."""
        with contextlib.suppress(OSError):
            self.operations.remove_tree(path)

    def leftovers(self) -> Iterator[Path]:
        """Temporary files and what is staged, of all processes."""
        for folder, prefix in ((self.root, _TEMPORARY), (self.staging, "")):
            for name in names_in(folder):
                if name.startswith(prefix):
                    yield folder / name

    def owner_of(self, leftover: Path) -> str:
        """The name of one of :meth:`leftovers` as its process made it."""
        return leftover.name.removeprefix(_TEMPORARY)

    @contextlib.contextmanager
    def errors(self, doing: str) -> Iterator[None]:
        """Turns what the system refuses meanwhile into StoreError, which says why."""
        try:
            yield
        except OSError as error:
            reason = _REASONS.get(error.errno or 0) or quoted(error.strerror or error)
            where = f" ({quoted(error.filename)})" if error.filename else ""
            raise StoreError(
                f"cannot {doing}, in the store {quoted(self.root)}: {reason}{where}; what was"
                " installed is as it was"
            ) from error


def dump_json(value: Mapping[str, Any]) -> bytes:
    """A document of the store: JSON in UTF-8, for people to read, too."""
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode(errors="replace")


def read_json(path: Path | str) -> dict[str, Any] | None:
    """A document of the store; None where there is none.

    StoreError where it is damaged; OSError where it cannot be read.
    """
    try:
        content = _read_bytes(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except IsADirectoryError as error:
        raise damaged(path) from error
    try:
        value = json.loads(content) if len(content) <= _MOST_NBYTES else None
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise damaged(path)
    return value


def _read_bytes(path: Path | str) -> bytes:
    """All of a file, or one byte more than may be read; in a third of the time of a stream."""
    descriptor = os.open(path, _FOR_READING)
    try:
        nbytes = min(os.fstat(descriptor).st_size, _MOST_NBYTES)
        return os.read(descriptor, nbytes + 1)
    finally:
        os.close(descriptor)


def damaged(path: Path | str) -> StoreError:
    """The error for a document of the store that says nothing, or something impossible."""
    return StoreError(
        f"{quoted(path)} is damaged: delete it, and install the package again (other packages are"
        " not touched)"
    )


def names_in(folder: Path) -> list[str]:
    """What lies in a folder, sorted; nothing where there is none."""
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - names
    except (FileNotFoundError, NotADirectoryError):
        return []
