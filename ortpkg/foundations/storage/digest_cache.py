"""Cache of file digests, so that a second session does not read files again.

Keys are data of the file system (device, inode, size, times of change); those of a package's files
are kept together, those of other files each by its path. Whoever can write the cache can write the
package's digests too, so it is trusted as far as they are; ``ortpkg verify`` never uses it. A
damaged or missing cache counts as an empty one.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ortpkg.foundations.storage.fact_cache import read_fact, write_fact
from ortpkg.foundations.storage.file_stamp import FileStamp, file_stamp
from ortpkg.foundations.storage.hashing import FileDigest, HashedFile, hash_file

_KIND = "digests"
_MOST_FILES = 1000
_MOST_MODELS = 200
_MOST_NAMES = 100
_MOST_PACKAGES = 200
_KIND_OF_FILES = "file_digests"
_MOST_SINGLE_FILES = 1000
#: Smaller files are hashed faster than a cached digest is found.
_LEAST_REMEMBERED_NBYTES = 8 << 20


class DigestCache:
    """Digests of one package's files; :meth:`write` stores added ones."""

    def __init__(self, root: Path) -> None:
        self._key = {"root": str(root)}
        stored = read_fact(_KIND, self._key)
        stored = stored if isinstance(stored, dict) else {}
        self._files = _entries(stored.get("files"))
        self._needs = _entries(stored.get("needs"))
        self._is_changed = False

    def digest(self, file: str, stamp: FileStamp) -> FileDigest | None:
        """Return the digest of ``file`` if it has ``stamp``; None if unknown."""
        match self._files.get(file):
            case [*identity, str(sha256)] if identity == list(stamp):
                return FileDigest(sha256=sha256, nbytes=stamp.nbytes)
        return None

    def add(self, file: str, hashed: HashedFile, started_ns: int) -> None:
        """Add a digest, unless the file was too young when hashing began, or has changed since.

        ``started_ns`` is the ``time.time_ns`` at which hashing began. A file with a time in the
        future counts as young.
        """
        stamp = hashed.stamp
        if stamp is None or not stamp.is_settled(started_ns):
            return
        self._files.pop(file, None)  # the newest are last, and are kept the longest
        self._files[file] = [*stamp, hashed.digest.sha256]
        self._is_changed = True

    def needs(self, sha256: str) -> tuple[str, ...] | None:
        """Return the files that the model with this digest names, relative to its folder.

        Return None if unknown.
        """
        names = self._needs.get(sha256)
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            return tuple(names)
        return None

    def add_needs(self, sha256: str, names: Sequence[str]) -> None:
        """Add the names of the files that a model needs."""
        if len(names) <= _MOST_NAMES:
            self._needs[sha256] = list(names)
            self._is_changed = True

    def write(self) -> None:
        """Store added digests; ignore a cache that cannot be written."""
        if not self._is_changed:
            return
        # Pairs rather than objects: a fact does not keep the order of keys.
        files = list(self._files.items())[-_MOST_FILES:]
        needs = list(self._needs.items())[-_MOST_MODELS:]
        write_fact(_KIND, self._key, {"files": files, "needs": needs}, keep=_MOST_PACKAGES)
        self._is_changed = False


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, cached as long as the file stays the same.

    Return "" for an unreadable file, or one that changes meanwhile.
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
    """Return the SHA-256 of a file that nobody writes to, cached as long as it stays the same.

    Its times may change meanwhile, e.g. when the file gets another name.

    Raises:
        OSError: the file cannot be read.
    """
    stamp = FileStamp.of(path.lstat())
    return remembered_sha256(path, stamp, lambda: hash_file(path).sha256)


def remembered_sha256(path: Path, stamp: FileStamp, compute: Callable[[], str]) -> str:
    """Return the SHA-256 of the file with that ``stamp``, calling ``compute`` only once."""
    is_remembered = stamp.nbytes >= _LEAST_REMEMBERED_NBYTES and stamp.is_settled()
    key = {"path": str(path), "stamp": list(stamp)}
    cached = read_fact(_KIND_OF_FILES, key) if is_remembered else None
    if isinstance(cached, str):
        return cached
    digest = compute()
    if is_remembered and file_stamp(path) == stamp:
        write_fact(_KIND_OF_FILES, key, digest, keep=_MOST_SINGLE_FILES)
    return digest


def now_ns() -> int:
    """Return the time to compare a file's time of change with."""
    return time.time_ns()


def _entries(stored: Any) -> dict[str, Any]:
    pairs = stored if isinstance(stored, list) else []
    return {
        pair[0]: pair[1]
        for pair in pairs
        if isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str)
    }
