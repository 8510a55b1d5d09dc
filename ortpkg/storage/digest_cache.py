"""Digests of files that were hashed before, so that the second session reads nothing twice.

Keyed by what the file system says of a file (device, inode, size, times of change); those of a
package's files are kept together, those of other files each by its path. Whoever can write the
cache can write the package's digests too, so it is trusted as far as they are; ``ortpkg verify``
never asks it. A damaged or missing cache is as good as an empty one.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ortpkg.storage.fact_cache import read_fact, write_fact
from ortpkg.storage.file_stamp import FileStamp, file_stamp
from ortpkg.storage.hashing import FileDigest, HashedFile, hash_file

_KIND = "digests"
_MOST_FILES = 1000
_MOST_MODELS = 200
_MOST_NAMES = 100
_MOST_PACKAGES = 200
_KIND_OF_FILES = "file_digests"
_MOST_SINGLE_FILES = 1000
#: Less is hashed faster than a remembered digest is found.
_LEAST_REMEMBERED_NBYTES = 8 << 20


class DigestCache:
    """The digests of one package's files; :meth:`write` keeps what was added."""

    def __init__(self, root: Path) -> None:
        self._key = {"root": str(root)}
        stored = read_fact(_KIND, self._key)
        stored = stored if isinstance(stored, dict) else {}
        self._files = _entries(stored.get("files"))
        self._needs = _entries(stored.get("needs"))
        self._is_changed = False

    def digest(self, file: str, stamp: FileStamp) -> FileDigest | None:
        """The digest of ``file`` while it has ``stamp``; None where that is not known."""
        match self._files.get(file):
            case [*identity, str(sha256)] if identity == list(stamp):
                return FileDigest(sha256=sha256, nbytes=stamp.nbytes)
        return None

    def add(self, file: str, hashed: HashedFile, started_ns: int) -> None:
        """Remembers a digest, unless the file was too young when hashing began, or changed since.

        ``time.time_ns`` tells when that was.

        A file from the future counts as young.
        """
        stamp = hashed.stamp
        if stamp is None or not stamp.is_settled(started_ns):
            return
        self._files.pop(file, None)  # the newest stand last, and are kept the longest
        self._files[file] = [*stamp, hashed.digest.sha256]
        self._is_changed = True

    def needs(self, sha256: str) -> tuple[str, ...] | None:
        """The files that the model with this digest names, relative to its folder.

        None where that is not known.
        """
        found = self._needs.get(sha256)
        if isinstance(found, list) and all(isinstance(name, str) for name in found):
            return tuple(found)
        return None

    def add_needs(self, sha256: str, names: Sequence[str]) -> None:
        """Remembers which files a model names."""
        if len(names) <= _MOST_NAMES:
            self._needs[sha256] = list(names)
            self._is_changed = True

    def write(self) -> None:
        """Keeps what was added; where the cache cannot be written, nothing happens."""
        if not self._is_changed:
            return
        # Pairs rather than objects, whose order a fact does not keep.
        files = list(self._files.items())[-_MOST_FILES:]
        needs = list(self._needs.items())[-_MOST_MODELS:]
        write_fact(_KIND, self._key, {"files": files, "needs": needs}, keep=_MOST_PACKAGES)
        self._is_changed = False


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, remembered while it stays.

    "" where it is none that can be read, or changes meanwhile.
    """
    stamp = file_stamp(path)
    if stamp is None or not path.is_file():
        return ""

    def read() -> str:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    try:
        digest = remembered_sha256(path, stamp, read)
    except OSError:
        return ""
    return digest if file_stamp(path) == stamp else ""


def content_sha256(path: Path) -> str:
    """SHA-256 of the bytes of a file that nobody writes to, remembered while it stays.

    Its times may change meanwhile, as those of a file that gets another name do.

    OSError where it cannot be read.
    """
    stamp = FileStamp.of(path.lstat())
    return remembered_sha256(path, stamp, lambda: hash_file(path).sha256)


def remembered_sha256(path: Path, stamp: FileStamp, compute: Callable[[], str]) -> str:
    """The SHA-256 of the file with that ``stamp``: asked of ``compute`` once, while it stays."""
    is_remembered = stamp.nbytes >= _LEAST_REMEMBERED_NBYTES and stamp.is_settled()
    key = {"path": str(path), "stamp": list(stamp)}
    known = read_fact(_KIND_OF_FILES, key) if is_remembered else None
    if isinstance(known, str):
        return known
    digest = compute()
    if is_remembered and file_stamp(path) == stamp:
        write_fact(_KIND_OF_FILES, key, digest, keep=_MOST_SINGLE_FILES)
    return digest


def now_ns() -> int:
    """The time to compare a file's time of change with."""
    return time.time_ns()


def _entries(stored: Any) -> dict[str, Any]:
    pairs = stored if isinstance(stored, list) else []
    return {
        pair[0]: pair[1]
        for pair in pairs
        if isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str)
    }
