"""Content on its way into the store: one process at a time works at what has arrived of a blob.

What a broken transfer left lies at ``partial/<hex>.part``. Who goes on with it first renames it to
a name of its own, which one process alone can do. What a killed process left has that process's
name, and is taken over in the same way.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from ortpkg.storage.held_file import hold, is_held
from ortpkg.store.process_names import Maker, maker_of, new_name
from ortpkg.store.store_folder import StoreFolder, names_in

_FREE = "part"
#: Nothing was written for so long, by a process of which nobody can say whether it lives.
_FOREIGN_AGE_S = 3600.0


class ClaimedPart:
    """What has arrived of a blob: one process's, until it lets go.

    Attributes:
        path: the file, which is there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
        hold(self._descriptor)

    def let_go(self) -> None:
        """Closes the file, before it is renamed: Windows renames no open file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1


@contextlib.contextmanager
def claimed_part(folder: StoreFolder, sha256: str) -> Iterator[ClaimedPart]:
    """A file for what has arrived of a blob and what comes, of this call alone.

    When the context is left, what is still there is free for the next that wants the blob.
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
        part.let_go()
        _set_free(folder, sha256, path)


def _take_over(folder: StoreFolder, sha256: str, path: Path) -> None:
    """Claims the longest part that is free; does nothing where others were faster.

    A link, a pipe, or a file of somebody else is no part of ours, and not written through.
    """
    for found in sorted(free_parts(folder, sha256), key=_nbytes, reverse=True):
        if not _is_own_file(found):
            folder.discard(found)
            continue
        with contextlib.suppress(FileNotFoundError):
            folder.operations.replace(found, path)
            if _is_own_file(path):  # it may have been exchanged meanwhile
                return
            folder.discard(path)


def _is_own_file(path: Path) -> bool:
    """Whether a plain file of this user lies at ``path``, which has no other name."""
    try:
        status = path.lstat()
    except OSError:
        return False
    is_own = sys.platform == "win32" or status.st_uid == os.getuid()
    return stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and is_own


def free_parts(folder: StoreFolder, sha256: str) -> list[Path]:
    """What has arrived of a blob, and nobody works at."""
    return [
        folder.partial / name
        for name in names_in(folder.partial)
        if name.startswith(sha256) and is_free(folder.partial / name)
    ]


def _set_free(folder: StoreFolder, sha256: str, path: Path) -> None:
    """Leaves what arrived to others, unless they have more; a file without content helps nobody."""
    if not path.exists():  # it is a blob now
        return
    with contextlib.suppress(OSError):  # it is free as soon as this process ends
        other = folder.partial / f"{sha256}.{_FREE}"
        if _nbytes(path) > max(0, _nbytes(other)):
            folder.operations.replace(path, other)
        else:
            folder.operations.unlink(path)


def nbytes_on_the_way(folder: StoreFolder, sha256: str) -> int | None:
    """How much of a blob has arrived where another call brings it; None where none does."""
    parts = [
        _nbytes(folder.partial / name)
        for name in names_in(folder.partial)
        if name.startswith(sha256) and not is_free(folder.partial / name)
    ]
    return max(parts, default=None)


def is_free(path: Path) -> bool:
    """Whether nobody works at the part of a blob that lies at ``path``."""
    owner = path.name.partition(".")[2]
    if owner == _FREE:
        return True
    maker = maker_of(owner)
    if maker is Maker.LIVES or is_held(path):
        return False
    return maker is Maker.IS_GONE or age_s(path) > _FOREIGN_AGE_S


def age_s(path: Path) -> float:
    """How long ago something was written to a file.

    0 where it is gone, and where the clock has been set back since.
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
