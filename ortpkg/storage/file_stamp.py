"""What the file system says of a file, by which what was found out about it is remembered."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

#: A file this young may change again without a new time of change: clocks of file systems tick as
#: slowly as 2 s (FAT).
_LEAST_AGE_NS = 2_000_000_000


class FileStamp(NamedTuple):
    """What the file system says of a file.

    While it stays the same, so do (very probably) the bytes.

    Windows keeps the time of creation in ``ctime_ns``, which no change of content changes; there
    the rest must do.
    """

    device: int
    inode: int
    nbytes: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> FileStamp:
        """The stamp in what ``os.stat`` says of the file."""
        return cls(
            status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
        )

    def is_same_content(self, other: FileStamp | None) -> bool:
        """Return True if the file is the same one with the same bytes, for all that can be told.

        A new name of the file, or new permissions, change ``ctime_ns`` and nothing else.
        """
        return other is not None and self[:4] == other[:4]

    def is_settled(self, at_ns: int | None = None) -> bool:
        """Whether the file was old enough at ``at_ns`` for any later change to show in its stamp.

        ``at_ns`` is a ``time.time_ns``, by default now.

        A file from the future counts as young.
        """
        now_ns = time.time_ns() if at_ns is None else at_ns
        return now_ns - max(self.mtime_ns, self.ctime_ns) >= _LEAST_AGE_NS


def file_stamp(path: Path) -> FileStamp | None:
    """What changes when the file does; None where it cannot be asked."""
    try:
        return FileStamp.of(os.stat(path))  # noqa: PTH116 - one call on the way to a start
    except OSError:
        return None
