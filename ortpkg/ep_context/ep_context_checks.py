"""Which blobs were compared with their digests before: the second start reads nothing twice.

Keyed by what the file system says of the file (device, inode, size, times of change): a file that
changed is another one. Like every cache of facts it may vanish or be damaged; then blobs are
compared again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ortpkg.storage.fact_cache import read_fact, write_fact
from ortpkg.storage.file_stamp import FileStamp, file_stamp

_KIND = "ep_context_checks"
_MOST_FILES = 500
_MOST_BLOBS = 1000


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
    stamp: FileStamp
    offsets: Mapping[str, int]

    @property
    def is_same(self) -> bool:
        """Whether nobody has changed or replaced the file since."""
        return file_stamp(self.path) == self.stamp


class CheckedBlobs:
    """The blobs of one file that are known, by the file's stamp, to be what its index says."""

    def __init__(self, path: Path, stamp: FileStamp) -> None:
        """Read what is known of the file.

        Args:
            path: the file.
            stamp: what :func:`file_stamp` said both before and after the file was mapped.
        """
        self._key = {"path": str(path), "stamp": list(stamp)}
        self._is_settled = stamp.is_settled()
        stored = read_fact(_KIND, self._key) if self._is_settled else None
        self._known = (
            set(stored)
            if isinstance(stored, list) and all(isinstance(each, str) for each in stored)
            else set()
        )

    def __contains__(self, blob: tuple[int, str]) -> bool:
        return _text(blob) in self._known

    def add(self, blob: tuple[int, str]) -> None:
        """Remember a blob (offset, SHA-256) that was compared.

        Not of a file that is younger than two seconds.
        """
        if not self._is_settled or len(self._known) >= _MOST_BLOBS:
            return
        self._known.add(_text(blob))
        write_fact(_KIND, self._key, sorted(self._known), keep=_MOST_FILES)


def _text(blob: tuple[int, str]) -> str:
    return f"{blob[0]}:{blob[1]}"
