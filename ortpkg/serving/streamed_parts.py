"""Parts of streamed answers that runs have made and clients have not taken: bounded together."""

from __future__ import annotations

import threading

from ortpkg.errors import CancelledError, ServerBusyError

_RETRY_AFTER_S = 1.0


class PartsRoom:
    """Counts the bytes of the parts of all streams.

    ``most_nbytes``: of all of them; one alone may have more.
    """

    def __init__(self, most_nbytes: int) -> None:
        self._most_nbytes = most_nbytes
        self._nbytes = 0
        self.lock = threading.Lock()

    def take(self, nbytes: int) -> None:
        """Count so many more, with the lock held. ServerBusyError where there is no room."""
        if self._nbytes and self._nbytes + nbytes > self._most_nbytes:
            raise ServerBusyError(
                "clients have not read as many bytes of streamed answers as may wait for them",
                retry_after_s=_RETRY_AFTER_S,
            )
        self._nbytes += nbytes

    def give(self, nbytes: int) -> None:
        """Count so many less, with the lock held."""
        self._nbytes -= nbytes


class StreamedParts:
    """Counts the parts of one stream, on the thread of its run and where they are sent."""

    def __init__(self, room: PartsRoom) -> None:
        self._room = room
        self._nbytes = 0
        self._is_over = False

    def add(self, nbytes: int) -> None:
        """Count a part that waits. ServerBusyError without room, CancelledError after the end."""
        with self._room.lock:
            if self._is_over:
                raise CancelledError("nobody reads the stream any more")
            self._room.take(nbytes)
            self._nbytes += nbytes

    def remove(self, nbytes: int) -> None:
        """Forget a part that was taken."""
        with self._room.lock:
            self._room.give(nbytes)
            self._nbytes -= nbytes

    def end(self) -> None:
        """Forget all parts that wait; there will be no others."""
        with self._room.lock:
            self._is_over = True
            self._room.give(self._nbytes)
            self._nbytes = 0
