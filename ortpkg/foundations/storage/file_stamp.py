"""Stamp of a file from the file system, a key for cached facts about its content."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

#: A younger file may change again without a new time of change: clocks of file systems tick as
#: slowly as every 2 s (FAT).
_LEAST_AGE_NS = 2_000_000_000


class FileStamp(NamedTuple):
    """Data of the file system about a file; while it is the same, so (very probably) are the bytes.

    Windows keeps the time of creation in ``ctime_ns``, which no change of content changes; there
    the other fields must do.
    """

    device: int
    inode: int
    nbytes: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> FileStamp:
        """Return the stamp in a result of ``os.stat``."""
        return cls(
            status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
        )

    def is_same_content(self, other: FileStamp | None) -> bool:
        """Return True if the file is the same with the same bytes, as far as stamps show.

        A new name of the file, or new permissions, change ``ctime_ns`` and nothing else.
        """
        return other is not None and self[:4] == other[:4]

    def is_settled(self, at_ns: int | None = None) -> bool:
        """Return True if the file was so old at ``at_ns`` that a later change shows in its stamp.

        ``at_ns`` is a ``time.time_ns``, by default now. A file with a time in the future counts as
        young.
        """
        now_ns = time.time_ns() if at_ns is None else at_ns
        return now_ns - max(self.mtime_ns, self.ctime_ns) >= _LEAST_AGE_NS


def file_stamp(path: Path) -> FileStamp | None:
    """Return the stamp of a file; None if it cannot be read."""
    try:
        return FileStamp.of(os.stat(path))  # noqa: PTH116 - every start makes this call
    except OSError:
        return None


def renamed_identity(path: Path) -> list[int]:
    """Return inode, size and time of change, which a rename keeps; an inode alone may be reused."""
    status = path.lstat()
    return [status.st_ino, status.st_size, status.st_mtime_ns]
