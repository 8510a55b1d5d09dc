"""Files of package trees, made from blobs as reflinks, hard links or copies.

The first of these is used that the file system supports and the reader accepts.
"""

from __future__ import annotations

import errno
from pathlib import Path

from ortpkg.foundations.storage.file_operations import CANNOT_CLONE, FileOperations
from ortpkg.package.receipts import FileMode

_CHUNK_NBYTES = 1024 * 1024


class FileMaker:
    """Maker of the files of one tree, in the first way that works."""

    def __init__(self, operations: FileOperations, *, is_linked: bool) -> None:
        self._operations = operations
        self._ways = [FileMode.REFLINK, FileMode.COPY]
        if is_linked:
            self._ways.insert(1, FileMode.HARD_LINK)

    @property
    def mode(self) -> FileMode:
        """Way that worked last; before the first file, the first that is tried."""
        return self._ways[0]

    def make(self, blob: Path, target: Path) -> None:
        """Make a read-only file at ``target`` with the content of ``blob``.

        A way that fails once is not tried again, since a tree lies on one file system. The
        exception is a blob that cannot have more names (EMLINK): then only this file is copied.
        """
        while True:
            way = self._ways[0]
            try:
                self._make(way, blob, target)
            except OSError as error:
                if way is FileMode.COPY or error.errno not in CANNOT_CLONE:
                    raise
                if error.errno == errno.EMLINK:
                    self._make(FileMode.COPY, blob, target)
                    return
            else:
                return
            self._ways.pop(0)

    def _make(self, way: FileMode, blob: Path, target: Path) -> None:
        if way is FileMode.HARD_LINK:
            self._operations.link(blob, target)
            return
        if way is FileMode.REFLINK:
            self._operations.clone(blob, target)
        else:
            with blob.open("rb") as source, self._operations.new_file(target) as copy:
                while chunk := source.read(_CHUNK_NBYTES):
                    copy.write(chunk)
        self._operations.make_read_only(target)
