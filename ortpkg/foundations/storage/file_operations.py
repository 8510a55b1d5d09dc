"""Operations by which authoring changes a disk, a method each, so that tests can fail any of them.

They work on Linux, macOS and Windows. If systems differ, the method says so.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Protocol

from ortpkg.foundations.errors import AuthoringError, quoted
from ortpkg.foundations.storage.file_clone import clone_file
from ortpkg.foundations.storage.file_replacement import rename_over
from ortpkg.foundations.storage.planned_files import PlannedFiles
from ortpkg.foundations.storage.write_behind import WriteBehind

if TYPE_CHECKING:
    from ortpkg.foundations.storage.hashing import FileDigest, Progress

CHUNK_NBYTES = 4 * 1024 * 1024
#: Errors of file systems without reflinks or hard links, or between two file systems.
CANNOT_CLONE = frozenset(
    {
        errno.ENOTSUP,
        errno.EOPNOTSUPP,
        errno.ENOSYS,
        errno.ENOTTY,
        errno.EINVAL,
        errno.EXDEV,
        errno.EPERM,
        errno.EACCES,
        errno.EMLINK,
    }
)
_HERE = -100  # AT_FDCWD of Linux: relative paths start in the current folder
_READ_ONLY = stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH
_EXCHANGE = 2  # RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS


def open_unlinked(path: Path, mode: Literal["rb", "r+b", "wb", "ab"]) -> BinaryIO:
    """Open a regular file at ``path`` itself, or create one if ``mode`` does.

    Raises:
        OSError: there is a link, which would lead elsewhere, or a pipe, which would block.
    """
    file: Any = open(path, mode, buffering=0 if mode == "ab" else -1, opener=_unlinked)  # noqa: SIM115 - the caller's
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is no plain file", str(path))
    opened: BinaryIO = file
    return opened


def _unlinked(path: str, flags: int) -> int:
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    return os.open(path, flags, 0o666)


class Readable(Protocol):
    """Stream that is copied from."""

    def read(self, nbytes: int, /) -> bytes:
        """Return the next bytes, at most ``nbytes``; b"" at the end."""


class FileOperations:
    """Changes to a disk.

    Each calls :meth:`before` first, which tests override to fail there.

    Attributes:
        are_real: True if announced changes happen; False for a rehearsal.
    """

    are_real = True

    def before(self, operation: str, path: Path) -> None:
        """Called before each operation on ``path``; an exception prevents the operation."""

    def announce(self, files: PlannedFiles) -> None:
        """Called before the first operation of a change that is planned and checked.

        A rehearsal ends there.
        """

    def free_nbytes(self, directory: Path) -> int:
        """Return the free space on the disk that holds ``directory``, in bytes."""
        import shutil  # imports four compressors, which takes longer than opening a package

        return shutil.disk_usage(directory).free

    def make_directory(self, path: Path) -> None:
        """Create a directory whose parent exists; an existing one is fine."""
        self.before("make_directory", path)
        path.mkdir(exist_ok=True)

    def write_file(self, path: Path, content: bytes) -> None:
        """Write a new file and make it durable.

        Raises:
            FileExistsError: it exists: no live file is overwritten.
        """
        self.before("create", path)
        with self.new_file(path) as target:
            target.write(content)

    def copy_file(
        self, source: Path, target: Path, *, name: str, progress: Progress | None = None
    ) -> FileDigest:
        """Copy a regular file to a new, durable one in chunks; return the digest written.

        Raises:
            AuthoringError: ``source`` is a symbolic link or not a regular file, or becomes one
                meanwhile.
        """
        with open_regular(source) as (stream, nbytes):
            return self.copy_stream(stream, target, nbytes=nbytes, name=name, progress=progress)

    def copy_stream(
        self,
        stream: Readable,
        target: Path,
        *,
        nbytes: int,
        name: str,
        progress: Progress | None = None,
    ) -> FileDigest:
        """Copy like :meth:`copy_file`, from an open stream of about ``nbytes``."""
        from ortpkg.foundations.storage.hashing import (
            Sha256Stream,  # imports OpenSSL, which only copying needs
        )

        hashing = Sha256Stream()
        with self.new_file(target) as copy:
            while chunk := stream.read(CHUNK_NBYTES):
                copy.write(chunk)
                hashing.update(chunk)
                if progress is not None:
                    progress(name, hashing.nbytes, max(hashing.nbytes, nbytes))
        return hashing.digest()

    @contextlib.contextmanager
    def new_file(self, path: Path) -> Iterator[NewFile]:
        """Open a new file to write piece by piece; it is durable after an exit without error."""
        self.before("create", path)
        with path.open("x+b") as target:
            yield NewFile(self, target, path)
            self._fsync(target, path)

    @contextlib.contextmanager
    def longer_file(self, path: Path) -> Iterator[NewFile]:
        """Open an existing file to append to; it is durable after an exit without error.

        Data is put on the disk while more is written.
        """
        self.before("extend", path)
        with open_unlinked(path, "r+b") as target, WriteBehind(target.fileno()) as write_behind:
            target.seek(0, os.SEEK_END)
            yield NewFile(self, target, path, on_write=write_behind.wrote)
            write_behind.finish()
            self._fsync(target, path)

    def make_empty(self, path: Path) -> None:
        """Create an empty file, or truncate one that nobody else reads; not durable."""
        self.before("truncate", path)
        open_unlinked(path, "wb").close()

    def append_line(self, path: Path, line: bytes) -> None:
        """Append a short line to a file, which is created if missing, in one write; not durable."""
        self.before("append", path)
        with open_unlinked(path, "ab") as target:
            target.write(line)

    def replace(self, source: Path, target: Path) -> None:
        """Rename ``source`` to ``target`` atomically.

        An existing file is replaced; its readers keep the old one. Windows refuses while another
        process (a virus scanner, a reader) holds the target open: the rename is retried for a
        second.
        """
        self.before("replace", target)
        rename_over(source, target)

    def place(self, source: Path, target: Path) -> None:
        """Rename a folder that is not empty to a free name, atomically.

        Raises:
            FileExistsError: something is there: of several that want one name, one gets it.
        """
        self.before("place", target)
        if target.exists():  # an empty folder would be replaced, and Windows says something else
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
        try:
            source.rename(target)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.ENOTDIR):
                raise FileExistsError(errno.EEXIST, error.strerror, str(target)) from error
            raise

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name; FileExistsError if that exists."""
        self.before("link", target)
        os.link(source, target)

    def clone(self, source: Path, target: Path) -> None:
        """Create a durable file that shares the blocks of ``source`` until one changes.

        Raises:
            OSError: the file system cannot; nothing new is left.
        """
        self.before("clone", target)
        clone_file(source, target)

    def make_read_only(self, path: Path) -> None:
        """Remove the permission to write a file from everybody; all may read it."""
        self.before("chmod", path)
        path.chmod(_READ_ONLY)

    def exchange(self, first: Path, second: Path) -> None:
        """Exchange the names of two files or folders on one disk, in one step.

        Only Linux and macOS can.

        Raises:
            AuthoringError: the system, or its file system, cannot.
        """
        self.before("exchange", second)
        if not exchange_names(first, second):
            raise AuthoringError(
                f"{quoted(second)} cannot be exchanged in one step on this system: remove it first"
            )

    def unlink(self, path: Path) -> None:
        """Delete a file or a symbolic link (never its target); a missing one is fine."""
        self.before("unlink", path)
        if sys.platform == "win32" and path.exists():
            path.chmod(stat.S_IWRITE)  # Windows does not delete read-only files
        path.unlink(missing_ok=True)

    def remove_directory(self, path: Path) -> None:
        """Delete an empty directory."""
        self.before("remove_directory", path)
        path.rmdir()

    def remove_tree(self, path: Path) -> None:
        """Delete a file, a symbolic link, or a directory with everything in it, if it exists."""
        if path.is_symlink() or not path.is_dir():
            self.unlink(path)
            return
        for parent, directories, files in os.walk(path, topdown=False):
            for name in sorted(files):
                self.unlink(Path(parent, name))
            for name in sorted(directories):
                child = Path(parent, name)
                if child.is_symlink():
                    self.unlink(child)
                else:
                    self.remove_directory(child)
        self.remove_directory(path)

    def fsync_directory(self, path: Path) -> None:
        """Make creations, renames and deletions in a directory durable.

        Windows has no such call (NTFS keeps its own journal of names), so nothing is done there.
        """
        self.before("fsync_directory", path)
        if sys.platform != "win32":
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def _fsync(self, stream: BinaryIO, path: Path) -> None:
        self.before("fsync", path)
        stream.flush()
        os.fsync(stream.fileno())


class PassingOperations(FileOperations):
    """Operations on files that live no longer than this process: nothing is synced."""

    def fsync_directory(self, path: Path) -> None:
        """Do nothing: the directory need not survive a power cut."""

    def _fsync(self, stream: BinaryIO, path: Path) -> None:
        """Do nothing: the file need not survive a power cut."""


def make_parents(base: Path, path: str, operations: FileOperations) -> None:
    """Create the parent folders of ``path`` (relative, with ``/``) below ``base``, durably."""
    folder = base
    for name in path.split("/")[:-1]:
        folder /= name
        if not folder.is_dir():
            operations.make_directory(folder)
            operations.fsync_directory(folder.parent)


class NewFile:
    """File that is being written; each write is an operation of its own."""

    def __init__(
        self,
        operations: FileOperations,
        stream: BinaryIO,
        path: Path,
        *,
        on_write: Callable[[int], object] | None = None,
    ) -> None:
        self._operations = operations
        self._stream = stream
        self._path = path
        self._on_write = on_write

    def write(self, content: bytes) -> None:
        """Write at the current position."""
        self._operations.before("write", self._path)
        self._stream.write(content)
        if self._on_write is not None:
            self._on_write(len(content))

    def write_at(self, offset: int, content: bytes) -> None:
        """Write at ``offset``, and return to the previous position."""
        position = self._stream.tell()
        self._stream.seek(offset)
        self.write(content)
        self._stream.seek(position)

    def tell(self) -> int:
        """Return the current position."""
        return self._stream.tell()


@contextlib.contextmanager
def open_regular(path: Path) -> Iterator[tuple[BinaryIO, int]]:
    """Open a regular file for reading; yield the stream and its size in bytes.

    Raises:
        AuthoringError: it is a symbolic link, a folder or a device, or is exchanged for one while
            it is opened.
    """
    before = path.lstat()
    if stat.S_ISLNK(before.st_mode):
        raise AuthoringError(
            f"{quoted(path)} is a symbolic link; pass a folder with plain files (cp -L makes one)"
        )
    if not stat.S_ISREG(before.st_mode):
        raise AuthoringError(f"{quoted(path)} is not a regular file")
    with path.open("rb") as stream:
        opened = os.fstat(stream.fileno())
        if not os.path.samestat(before, opened):
            raise AuthoringError(
                f"{quoted(path)} was exchanged while it was being opened; try again"
            )
        yield stream, opened.st_size


def exchange_names(first: Path, second: Path) -> bool:
    """Exchange two names; return False if the system cannot, with nothing changed.

    Uses renameat2 on Linux, renamex_np on macOS; the standard library has neither.
    """
    import ctypes  # only needed here

    names = os.fsencode(first), os.fsencode(second)
    try:
        library = ctypes.CDLL(None)
        if hasattr(library, "renameat2"):
            return bool(library.renameat2(_HERE, names[0], _HERE, names[1], _EXCHANGE) == 0)
        return bool(library.renamex_np(names[0], names[1], _EXCHANGE) == 0)
    except (OSError, AttributeError, TypeError):  # another system, or an old C library
        return False
