"""Half-written files of sessions that were killed while they wrote to the context cache."""

from __future__ import annotations

import contextlib
import re
import time
from dataclasses import dataclass
from pathlib import Path

from ortpkg.foundations.storage.process_lock import is_unlocked

#: Temporary files of replace_file: for an entry's two files, for a cached session
#: (``cached_sessions``), for a refusal.
_TEMPORARY = re.compile(r"\.([0-9a-f]{40})\.(bin|json|session|session\.onnx|refusal)\.[0-9a-f]+")
_LOCKED = frozenset({"bin", "json"})
#: Seconds after which a temporary file is abandoned: a large one, and a small one that is written
#: without a lock.
_OLD_S, _OLD_SMALL_S = 86_400.0, 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A file that a session left half written when it was killed.

    Attributes:
        path: path of the file.
        nbytes: its current size in bytes.
    """

    path: Path
    nbytes: int


def find_leftovers(directory: Path, *, own: str = "") -> list[Leftover]:
    """Return half-written files of killed sessions, by name.

    ``own``: a key whose lock the caller holds without writing its files now.
    """
    leftovers = []
    with contextlib.suppress(OSError):
        for path in sorted(directory.iterdir()):
            match = _TEMPORARY.fullmatch(path.name)
            if match is not None and (
                match[1] == own or _is_left(directory, path, match[1], match[2])
            ):
                with contextlib.suppress(OSError):
                    leftovers.append(Leftover(path=path, nbytes=path.stat().st_size))
    return leftovers


def drop_leftovers(directory: Path, *, own: str = "") -> int:
    """Delete what :func:`find_leftovers` returns; return the number of files."""
    leftovers = find_leftovers(directory, own=own)
    for leftover in leftovers:
        with contextlib.suppress(OSError):
            leftover.path.unlink(missing_ok=True)
    return len(leftovers)


def _is_left(directory: Path, temporary: Path, key: str, kind: str) -> bool:
    """Return True if the writer of a file is gone.

    A writer holds a lock, and takes less than a day.
    """
    lock = directory / f"{key}.lock"
    try:
        age_s = time.time() - temporary.stat().st_mtime
        if age_s > (_OLD_S if kind in _LOCKED else _OLD_SMALL_S):
            return True
        # Without a lock (the file system may have none) its age decides.
        return kind in _LOCKED and lock.exists() and is_unlocked(lock)
    except OSError:
        return False
