"""Memory of blobs that were compared with their digests, so that the next start reads none twice.

The key is the file's stamp (device, inode, size, times of change): a changed file has another one.
Like every cache of facts it may vanish or be damaged; then blobs are compared again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ortpkg.foundations.storage.fact_cache import read_fact, write_fact
from ortpkg.foundations.storage.file_stamp import FileStamp, file_stamp

_KIND = "ep_context_checks"
_MOST_FILES = 500
_MOST_BLOBS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class PartsFile:
    """File that holds the parts of a context, for libraries that map it themselves.

    Attributes:
        path: path of the file.
        stamp: result of :func:`file_stamp` when the file was mapped and its parts were compared
            with their digests.
        offsets: offset of each part.
    """

    path: Path
    stamp: FileStamp
    offsets: Mapping[str, int]

    @property
    def is_same(self) -> bool:
        """True if the file has not been changed or replaced since."""
        return file_stamp(self.path) == self.stamp


class CheckedBlobs:
    """Blobs of a file that are known, by the file's stamp, to match its index."""

    def __init__(self, path: Path, stamp: FileStamp) -> None:
        """Read what is known of the file.

        Args:
            path: the file.
            stamp: result of :func:`file_stamp` both before and after the file was mapped.
        """
        self._key = {"path": str(path), "stamp": list(stamp)}
        self._is_settled = stamp.is_settled()
        stored = read_fact(_KIND, self._key) if self._is_settled else None
        self._checked = (
            set(stored)
            if isinstance(stored, list) and all(isinstance(text, str) for text in stored)
            else set()
        )

    def __contains__(self, blob: tuple[int, str]) -> bool:
        return _text(blob) in self._checked

    def add(self, blob: tuple[int, str]) -> None:
        """Remember a blob (offset, SHA-256) that was compared.

        Blobs of a file younger than two seconds are not remembered.
        """
        if not self._is_settled or len(self._checked) >= _MOST_BLOBS:
            return
        self._checked.add(_text(blob))
        write_fact(_KIND, self._key, sorted(self._checked), keep=_MOST_FILES)


def _text(blob: tuple[int, str]) -> str:
    return f"{blob[0]}:{blob[1]}"
