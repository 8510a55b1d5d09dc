"""Files that one process at a time holds; the system frees them where their holder is killed."""

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
    """Holds the lock file at ``path``, which is made if need be.

    Args:
        path: the file.
        timeout_s: how long to wait for another holder; 0: not at all.
        while_waiting: told again and again for how many seconds it has waited, the first time with
            0; what it raises ends the wait.

    Raises:
        TimeoutError: another one held it all the time.
        OSError: it cannot be locked (on a file system without locks, for example).
    """
    import filelock  # only what changes files pays for it

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
    """Whether nobody holds the lock file at ``path`` now; False where that cannot be told."""
    try:
        with hold_lock(path):
            return True
    except OSError:
        return False
