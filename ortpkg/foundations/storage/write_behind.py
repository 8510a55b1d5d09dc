"""Put a long file on the disk while it is being written, so that the final sync is short."""

from __future__ import annotations

import os
import threading
from typing import Self

_EVERY_NBYTES = 32 * 1024 * 1024


class WriteBehind:
    """Background sync of an open file, in a thread, each time that much was written.

    Short files never start one. The error of a failed sync is raised by the next call, as the
    system reports it only once.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._unsynced_nbytes = 0
        self._thread: threading.Thread | None = None
        self._errors: list[OSError] = []

    def wrote(self, nbytes: int) -> None:
        """Count a write of so many bytes, and start a sync if there were many."""
        self._unsynced_nbytes += nbytes
        if self._unsynced_nbytes < _EVERY_NBYTES:
            return
        if self._thread is not None and self._thread.is_alive():
            return  # the disk is slower than the writer: the system makes the writer wait
        self.finish()
        self._unsynced_nbytes = 0
        self._thread = threading.Thread(target=self._sync, name="ortpkg-sync", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Wait for a running sync; OSError if one failed."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._errors:
            raise self._errors.pop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread is not None:
            self._thread.join()  # before the file is closed under it

    def _sync(self) -> None:
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            self._errors.append(error)
