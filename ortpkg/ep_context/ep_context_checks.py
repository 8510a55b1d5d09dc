"""Which blobs of a context file were compared with their digests before, so that the second start
reads nothing twice.

Keyed by what the file system says of the file (device, inode, size, times of change): a file that
changed is another one. Like every cache of facts it may vanish or be damaged; then blobs are
compared again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ortpkg.storage.fact_cache import prune_facts, read_fact, write_fact

_KIND = "ep_context_checks"
_MOST_FILES = 500
_MOST_BLOBS = 1000
#: A file this young may change again without a new time of change: clocks of file systems tick as
#: slowly as 2 s (FAT).
_LEAST_AGE_NS = 2_000_000_000

Stamp = tuple[int, int, int, int, int]


def file_stamp(path: Path) -> Stamp | None:
    """What changes when the file does; None where it cannot be asked."""
    try:
        found = os.stat(path)  # noqa: PTH116 - one call on the way to a start
    except OSError:
        return None
    return stamp_of(found)


def stamp_of(found: os.stat_result) -> Stamp:
    """The stamp of a file that was asked for already."""
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartsFile:
    """The file that parts of a context lie in, for libraries that map it themselves.

    Attributes:
        path: of it.
        stamp: what :func:`file_stamp` said when it was mapped, and its parts compared with their
            digests.
        offsets: where each part begins.
    """

    path: Path
    stamp: Stamp
    offsets: Mapping[str, int]

    @property
    def is_same(self) -> bool:
        """Whether nobody has changed or replaced the file since."""
        return file_stamp(self.path) == self.stamp


class CheckedBlobs:
    """The blobs of one file, as it was when it was stamped, that are known to be what its index
    says.
    """

    def __init__(self, path: Path, stamp: Stamp) -> None:
        """
        Args:
            path: the file.
            stamp: what :func:`file_stamp` said both before and after the file was mapped.
        """
        self._key = {"path": str(path), "stamp": list(stamp)}
        self._is_settled = time.time_ns() - max(stamp[3], stamp[4]) >= _LEAST_AGE_NS
        stored = read_fact(_KIND, self._key) if self._is_settled else None
        self._known = (
            set(stored)
            if isinstance(stored, list) and all(isinstance(each, str) for each in stored)
            else set()
        )

    def __contains__(self, blob: tuple[int, str]) -> bool:
        return _text(blob) in self._known

    def add(self, blob: tuple[int, str]) -> None:
        """Remembers a blob (offset, SHA-256) that was compared; not of a file that is younger than
        two seconds.
        """
        if not self._is_settled or len(self._known) >= _MOST_BLOBS:
            return
        self._known.add(_text(blob))
        write_fact(_KIND, self._key, sorted(self._known))
        prune_facts(_KIND, keep=_MOST_FILES)


def _text(blob: tuple[int, str]) -> str:
    return f"{blob[0]}:{blob[1]}"
