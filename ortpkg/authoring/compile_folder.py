"""Temporary folder that variants are compiled into.

A lock file in it shows other processes that its owner is alive.
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

from ortpkg.foundations.storage.process_lock import hold_lock, is_unlocked

PREFIX = "ortpkg-compile-"
_LOCK = "owner.lock"
#: No compilation takes so long: a folder of this age is abandoned, even without a lock.
_OLD_S = 86_400.0


@contextlib.contextmanager
def compile_folder() -> Iterator[Path]:
    """Yield a new folder, which is removed afterwards.

    Folders that killed commands of this user left are removed first.
    """
    _sweep(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(OSError):  # without file locks, the age of the folder decides
                stack.enter_context(hold_lock(folder / _LOCK))
            yield folder


def _sweep(parent: Path) -> None:
    with contextlib.suppress(OSError):
        for folder in sorted(parent.glob(f"{PREFIX}*")):
            if _is_abandoned(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_abandoned(folder: Path) -> bool:
    """Return True if a command of this user created the folder and ended without removing it."""
    lock = folder / _LOCK
    try:
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or (
            os.name == "posix" and status.st_uid != os.geteuid()
        ):
            return False
        if time.time() - status.st_mtime > _OLD_S:
            return True
        # no lock: just being created, or on a file system without locks
        return lock.exists() and is_unlocked(lock)
    except OSError:
        return False
