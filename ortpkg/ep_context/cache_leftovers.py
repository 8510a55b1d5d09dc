"""What sessions that were killed while they kept a context left half written in its cache."""

from __future__ import annotations

import contextlib
import re
import time
from dataclasses import dataclass
from pathlib import Path

from ortpkg.storage.file_lock import is_unlocked

#: What replace_file writes to: of an entry's two files, of a session that was kept
#: (``cached_sessions``), of a refusal.
_TEMPORARY = re.compile(r"\.([0-9a-f]{40})\.(bin|json|session|session\.onnx|refusal)\.[0-9a-f]+")
_LOCKED = frozenset({"bin", "json"})
#: Nobody writes at a file for so long: one of gigabytes, and one of what is written without a lock,
#: which is small.
_OLD_S, _OLD_SMALL_S = 86_400.0, 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A file that a session which was killed while it kept a context left half written.

    Attributes:
        path: of it.
        nbytes: what of it is there.
    """

    path: Path
    nbytes: int


def find_leftovers(directory: Path, *, own: str = "") -> list[Leftover]:
    """What killed sessions left half written, by name.

    ``own``: a key whose lock the caller holds, and of which it writes nothing now.
    """
    found = []
    with contextlib.suppress(OSError):
        for path in sorted(directory.iterdir()):
            match = _TEMPORARY.fullmatch(path.name)
            if match is not None and (
                match[1] == own or _is_left(directory, path, match[1], match[2])
            ):
                with contextlib.suppress(OSError):
                    found.append(Leftover(path=path, nbytes=path.stat().st_size))
    return found


def drop_leftovers(directory: Path, *, own: str = "") -> int:
    """Delete what :func:`find_leftovers` finds; return how many there were."""
    found = find_leftovers(directory, own=own)
    for each in found:
        with contextlib.suppress(OSError):
            each.path.unlink(missing_ok=True)
    return len(found)


def _is_left(directory: Path, temporary: Path, key: str, kind: str) -> bool:
    """Whether its writer is gone: one holds a lock, and takes less than a day."""
    lock = directory / f"{key}.lock"
    try:
        age_s = time.time() - temporary.stat().st_mtime
        if age_s > (_OLD_S if kind in _LOCKED else _OLD_SMALL_S):
            return True
        # Without a lock (a file system that has none) its age has to tell.
        return kind in _LOCKED and lock.exists() and is_unlocked(lock)
    except OSError:
        return False
