"""Folder of a store: paths of its parts, and reading and writing of its small files."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ortpkg.distribution.store.process_names import new_name
from ortpkg.foundations.errors import StoreError, quoted
from ortpkg.foundations.storage.file_operations import FileOperations
from ortpkg.package.changes.store_guard import PACKAGES, STORE_MARK
from ortpkg.package.stored_documents import dump_json, read_json

_MARK_CONTENT = {"schema_version": "1.0"}
_LAYOUT = "oci-layout"
_LAYOUT_CONTENT = {"imageLayoutVersion": "1.0.0"}  # OCI image specification 1.1, image-layout.md
_TEMPORARY = ".ortpkg-"
_ATTEMPTS = 5
_OF_THE_DISK = frozenset({"lost+found"})


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
    """Folder of a store, which need not exist until something is stored.

    Attributes:
        root: The folder. Everything in it is relative to it, so that it can be moved.
        operations: Operations that change its files.
    """

    root: Path
    operations: FileOperations

    @property
    def blobs(self) -> Path:
        """Folder of complete content, by SHA-256."""
        return self.root / "blobs" / "sha256"

    @property
    def partial(self) -> Path:
        """Folder of content that has not fully arrived."""
        return self.root / "partial"

    @property
    def packages(self) -> Path:
        """Folder of trees: ``<manifest's SHA-256>/<which files, and how>/NAME.ortpackage``."""
        return self.root / PACKAGES

    @property
    def names(self) -> Path:
        """Folder of names, with their generations and the one in use."""
        return self.root / "names"

    @property
    def leases(self) -> Path:
        """Folder of leases of the processes that use the store."""
        return self.root / "leases"

    @property
    def uses(self) -> Path:
        """Folder of usage logs."""
        return self.root / "uses"

    @property
    def projects(self) -> Path:
        """Folder of records of the versions that projects have locked."""
        return self.root / "projects"

    @property
    def staging(self) -> Path:
        """Folder of things that are being made or deleted."""
        return self.root / "staging"

    @property
    def exists(self) -> bool:
        """True if the folder is a store already.

        Raises:
            StoreError: A newer ortpkg made the store.
            NotADirectoryError: The path is not a folder.
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
        """Make the folder a store if it is not one; several processes may do so at once.

        Raises:
            StoreError: The folder has other content.
        """
        if not self.exists:
            self.root.mkdir(parents=True, exist_ok=True)
            others = [
                name
                for name in sorted(os.listdir(self.root))  # noqa: PTH208 - names
                if not name.startswith(_TEMPORARY) and name not in _OF_THE_DISK
            ]
            if others and not self.exists:  # by now another process may have made it
                raise StoreError(
                    f"{quoted(self.root)} is no store, and holds other things"
                    f" ({quoted(others[0])}); name an empty or a new folder in ORTPKG_STORE"
                )
            self.write_json(self.root / STORE_MARK, _MARK_CONTENT)
        if not (self.root / _LAYOUT).exists():
            self.write_json(self.root / _LAYOUT, _LAYOUT_CONTENT)

    def make_folder(self, folder: Path) -> None:
        """Create a folder below the root, and its parents, durably."""
        if folder.is_dir():
            return
        if folder.parent != self.root:
            self.make_folder(folder.parent)
        self.operations.make_directory(folder)
        self.operations.fsync_directory(folder.parent)

    def write_json(self, path: Path, value: Mapping[str, Any]) -> None:
        """Write or replace a document in one step."""
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
        """Return a free path for something to make or delete; nothing exists there yet."""
        self.make_folder(self.staging)
        return self.staging / new_name()

    def set_aside(self, path: Path) -> Path:
        """Move a file or folder out of its path in one step, and return its new path.

        The caller deletes it there; a collection deletes what a killed process left.

        Raises:
            FileNotFoundError: It does not exist.
        """
        staging = self.new_staging()
        self.operations.replace(path, staging)
        return staging

    def discard(self, path: Path) -> None:
        """Delete a file or folder so that nobody sees half of it; it need not exist.

        It is moved first. What cannot be deleted then is left to the collection.
        """
        try:
            staging = self.set_aside(path)
        except FileNotFoundError:
            return
        for _ in range(_ATTEMPTS):
            try:
                self.operations.remove_tree(staging)
            except OSError as error:
                if error.errno != errno.ENOTEMPTY:
                    return
            else:
                return  # otherwise a process that had looked it up put something into it

    def remove_quietly(self, path: Path) -> None:
        """Remove something unfinished, as far as possible."""
        with contextlib.suppress(OSError):
            self.operations.remove_tree(path)

    def leftovers(self) -> Iterator[Path]:
        """Yield temporary files and staged content, of all processes."""
        for folder, prefix in ((self.root, _TEMPORARY), (self.staging, "")):
            for name in names_in(folder):
                if name.startswith(prefix):
                    yield folder / name

    def owner_of(self, leftover: Path) -> str:
        """Return the process name in the name of a leftover."""
        return leftover.name.removeprefix(_TEMPORARY)

    @contextlib.contextmanager
    def errors(self, doing: str) -> Iterator[None]:
        """Convert OSError to a StoreError that explains the reason."""
        try:
            yield
        except OSError as error:
            reason = _REASONS.get(error.errno or 0) or quoted(error.strerror or error)
            where = f" ({quoted(error.filename)})" if error.filename else ""
            raise StoreError(
                f"cannot {doing}, in the store {quoted(self.root)}: {reason}{where}; what was"
                " installed is as it was"
            ) from error


def names_in(folder: Path) -> list[str]:
    """Return the names in a folder, sorted; none if it does not exist."""
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - names
    except (FileNotFoundError, NotADirectoryError):
        return []
