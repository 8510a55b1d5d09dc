"""Turns, a kind of lock, that an interrupt cannot leave taken for ever.

A signal handler may raise after any call of ours, so a lock that a call acquires, or a number that
is counted up, may never be released or counted down. ``with lock:`` alone is safe: the interpreter
handles signals neither between the acquisition and the block, nor between the block and the
release. A turn therefore belongs to whoever holds a lock of its own by such a statement, and is
free as soon as that lock is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_LEAST_PAUSE_S, _MOST_PAUSE_S = 0.0002, 0.005


def uninterrupted(end: Callable[[], object]) -> None:
    """Call ``end`` until it has returned, then raise the last interrupt that came meanwhile.

    Meant for ``finally``, where memory must not be given back before others have left it. ``end``
    may be called again after any part of it.
    """
    interrupt: BaseException | None = None
    while True:
        try:
            end()
        except BaseException as error:  # noqa: BLE001 - raised below
            interrupt = error
        else:
            break
    if interrupt is not None:
        raise interrupt


class Turn:
    """Turn that one holder has at a time.

    ::

        holder = threading.Lock()
        with holder:
            if turn.claim(holder):
                ...
    """

    def __init__(self) -> None:
        # Reentrant: a signal handler that comes in between may claim the turn, too.
        self._lock = threading.RLock()
        self._holder = threading.Lock()

    def claim(self, holder: threading.Lock) -> bool:
        """Take the turn for as long as ``holder``, which the caller holds, is locked.

        Return False if another holder has it.
        """
        with self._lock:
            if self._holder.locked():
                return False
            self._holder = holder
            return True

    def wait(self) -> None:
        """Wait until the current holder has released the turn."""
        with self._holder:
            return

    def take(self, holder: threading.Lock, check: Callable[[], object]) -> None:
        """Wait for the turn and take it as :meth:`claim` does; call ``check`` meanwhile.

        It polls: a lock acquired with a time limit would stay taken if an interrupt came before its
        release.
        """
        pause_s = _LEAST_PAUSE_S
        while not self.claim(holder):
            check()
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _MOST_PAUSE_S)
