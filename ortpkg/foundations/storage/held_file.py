"""Lock files to show that their process is alive.

Unlike :mod:`ortpkg.foundations.storage.process_lock`, this needs no waiting in turn and no import
of 30 ms. A lock may be wrong (network file systems), so no file depends on one alone: whoever finds
a file free must have another reason, too, to believe that its holder is gone.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path

_ATTEMPTS = 50
_PAUSE_S = 0.01
#: Far behind all content: a lock on Windows keeps others from reading the locked bytes.
_LOCKED_BYTE = 0x7FFF_FFFE
#: Others may have put a link there, or a pipe that waits for its other end.
_CAREFUL = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def hold(descriptor: int) -> bool:
    """Lock an open file until it is closed; return False if that is impossible.

    Waits a moment for a process that only checks the lock.
    """
    for _ in range(_ATTEMPTS):
        try:
            _lock(descriptor)
        except BlockingIOError:
            time.sleep(_PAUSE_S)
        except OSError:
            return False
        else:
            return True
    return False


def is_held(path: Path) -> bool | None:
    """Return True if a process holds the file at ``path``; None if unknown."""
    try:
        try:
            descriptor = os.open(path, os.O_RDWR | _CAREFUL)
        except PermissionError:  # a file of another user
            descriptor = os.open(path, os.O_RDONLY | _CAREFUL)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    try:
        _lock(descriptor)
    except BlockingIOError:
        return True
    except OSError:
        return None
    else:
        return False
    finally:
        with contextlib.suppress(OSError):
            os.close(descriptor)


def _lock(descriptor: int) -> None:
    """Lock a file.

    Raises:
        BlockingIOError: another process holds it.
        OSError: there are no locks.
    """
    if sys.platform == "win32":
        import msvcrt

        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except PermissionError as error:
            raise BlockingIOError(error.errno, error.strerror) from error
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
