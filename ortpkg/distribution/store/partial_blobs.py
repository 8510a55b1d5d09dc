"""Partial content of blobs: one process at a time works at what has arrived of a blob.

An interrupted transfer leaves ``partial/<hex>.part``. A process that continues it first renames it
to a name of its own, which only one process can succeed with. The part of a killed process has that
process's name and is taken over in the same way.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from ortpkg.distribution.store.process_names import Maker, maker_of, new_name
from ortpkg.distribution.store.store_folder import StoreFolder, names_in
from ortpkg.foundations.storage.held_file import hold, is_held

_FREE = "part"
#: Age without a write after which a part of an unknown process counts as free.
_FOREIGN_AGE_S = 3600.0


class ClaimedPart:
    """Part of a blob that this process has claimed until it closes it.

    Attributes:
        path: The file, which exists.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
        hold(self._descriptor)

    def close(self) -> None:
        """Close the file before it is renamed, because Windows does not rename open files."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1


@contextlib.contextmanager
def claimed_part(folder: StoreFolder, sha256: str) -> Iterator[ClaimedPart]:
    """Claim a file for one blob, with what has arrived of it.

    When the context is left, a remaining file is free for the next call that wants the blob.
    """
    folder.make_folder(folder.partial)
    path = folder.partial / f"{sha256}.{new_name()}"
    _take_over(folder, sha256, path)
    if not path.exists():
        folder.operations.make_empty(path)
    part = ClaimedPart(path)
    try:
        yield part
    finally:
        part.close()
        _set_free(folder, sha256, path)


def _take_over(folder: StoreFolder, sha256: str, path: Path) -> None:
    """Claim the longest free part, if there is one and no other process is faster.

    A link, a pipe or another user's file is not a part of ours, and is not written through.
    """
    for part in sorted(free_parts(folder, sha256), key=_nbytes, reverse=True):
        if not _is_own_file(part):
            folder.discard(part)
            continue
        with contextlib.suppress(FileNotFoundError):
            folder.operations.replace(part, path)
            if _is_own_file(path):  # it may have been replaced meanwhile
                return
            folder.discard(path)


def _is_own_file(path: Path) -> bool:
    """Return True if ``path`` is a plain file of this user that has no other name."""
    try:
        status = path.lstat()
    except OSError:
        return False
    is_own = sys.platform == "win32" or status.st_uid == os.getuid()
    return stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and is_own


def free_parts(folder: StoreFolder, sha256: str) -> list[Path]:
    """Return the parts of a blob that no process works at."""
    return [
        folder.partial / name
        for name in names_in(folder.partial)
        if name.startswith(sha256) and is_free(folder.partial / name)
    ]


def _set_free(folder: StoreFolder, sha256: str, path: Path) -> None:
    """Rename a part so that others can continue it, unless they have more; delete an empty one."""
    if not path.exists():  # it became the blob
        return
    with contextlib.suppress(OSError):  # it is free anyway as soon as this process ends
        other = folder.partial / f"{sha256}.{_FREE}"
        if _nbytes(path) > max(0, _nbytes(other)):
            folder.operations.replace(path, other)
        else:
            folder.operations.unlink(path)


def nbytes_on_the_way(folder: StoreFolder, sha256: str) -> int | None:
    """Return the bytes of a blob that another call received so far; None without such a call."""
    parts = [
        _nbytes(folder.partial / name)
        for name in names_in(folder.partial)
        if name.startswith(sha256) and not is_free(folder.partial / name)
    ]
    return max(parts, default=None)


def is_free(path: Path) -> bool:
    """Return True if no process works at the part of a blob at ``path``."""
    owner = path.name.partition(".")[2]
    if owner == _FREE:
        return True
    maker = maker_of(owner)
    if maker is Maker.LIVES or is_held(path):
        return False
    return maker is Maker.IS_GONE or age_s(path) > _FOREIGN_AGE_S


def age_s(path: Path) -> float:
    """Return the time since the last write to a file, in seconds.

    It is 0 if the file is gone, or if the clock was set back since.
    """
    try:
        return max(0.0, time.time() - path.lstat().st_mtime)
    except OSError:
        return 0.0


def _nbytes(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return -1
