"""The temporary folder that variants are compiled into.

A lock in it tells others whether its owner lives.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from ortpkg.storage.file_lock import hold_lock, is_unlocked

PREFIX = "ortpkg-compile-"
_LOCK = "owner.lock"
#: Nothing is compiled for so long; tells where there is no lock.
_OLD_S = 86_400.0


@contextlib.contextmanager
def compile_folder() -> Iterator[Path]:
    """Yields a new folder, which is removed afterwards.

    Before, those are that killed commands of this user left.
    """
    _sweep(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(OSError):  # without locks, its age tells
                stack.enter_context(hold_lock(folder / _LOCK))
            yield folder


def _sweep(parent: Path) -> None:
    with contextlib.suppress(OSError):
        for folder in sorted(parent.glob(f"{PREFIX}*")):
            if _is_left(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_left(folder: Path) -> bool:
    """Whether a command of this user made it that has ended without removing it."""
    lock = folder / _LOCK
    try:
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or (os.name == "posix" and found.st_uid != os.geteuid()):
            return False
        if time.time() - found.st_mtime > _OLD_S:
            return True
        # none: just being made, or on a file system without locks
        return lock.exists() and is_unlocked(lock)
    except OSError:
        return False
