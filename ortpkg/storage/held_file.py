"""Files that say by the system's lock on them that their process lives.

As :mod:`ortpkg.storage.file_lock`, for who takes no turns and may not spend 30 ms on an import. A
lock may be a lie (network file systems), so nobody's files depend on one: who finds a file free has
another reason, too, to believe that its holder is gone.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path

_ATTEMPTS = 50
_PAUSE_S = 0.01
#: Far behind all content: a lock of Windows keeps others from reading what is locked.
_LOCKED_BYTE = 0x7FFF_FFFE
#: What others put there may be a link, or a pipe that waits for its other end.
_CAREFUL = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def hold(descriptor: int) -> bool:
    """Locks an open file until it is closed; False where that cannot be done here.

    Waits a moment for who only asks whether it is held.
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
    """Whether a process holds the file at ``path``; None where that cannot be told."""
    try:
        try:
            descriptor = os.open(path, os.O_RDWR | _CAREFUL)
        except PermissionError:  # of another user
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
    """BlockingIOError where another one holds it, OSError where there are no locks."""
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
