"""Lock files that one process at a time holds; the system frees them if their holder is killed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

_INTERVAL_S = 0.05


@contextlib.contextmanager
def hold_lock(
    path: Path, *, timeout_s: float = 0.0, while_waiting: Callable[[float], object] | None = None
) -> Iterator[None]:
    """Hold the lock file at ``path``, which is created if it is missing.

    Args:
        path: the file.
        timeout_s: how long to wait for another holder; 0 for not at all.
        while_waiting: called again and again with the seconds waited so far, the first time with 0;
            an exception ends the wait.

    Raises:
        TimeoutError: another process held it all the time.
        OSError: it cannot be locked (on a file system without locks, for example).
    """
    import filelock  # slow; only changes of files need it

    lock = filelock.FileLock(path)
    began_s = time.monotonic()
    waited_s = 0.0
    while True:
        try:
            lock.acquire(timeout=0)
            break
        except filelock.Timeout:
            if waited_s >= timeout_s:
                raise
        except NotImplementedError as error:
            raise OSError(str(error)) from error
        if while_waiting is not None:
            while_waiting(waited_s)
        time.sleep(_INTERVAL_S)
        waited_s = time.monotonic() - began_s
    try:
        yield
    finally:
        lock.release()


def is_unlocked(path: Path) -> bool:
    """Return True if nobody holds the lock file at ``path`` now; False if unknown."""
    try:
        with hold_lock(path):
            return True
    except OSError:
        return False
