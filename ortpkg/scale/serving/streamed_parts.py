"""Limits the bytes of streamed answers that wait for clients to read them."""

from __future__ import annotations

import threading

from ortpkg.foundations.errors import CancelledError, ServerBusyError

_RETRY_AFTER_S = 1.0


class PartsRoom:
    """Counter of the bytes that wait in all streams.

    Args:
        most_nbytes: Limit of the sum; a single part may be larger.
    """

    def __init__(self, most_nbytes: int) -> None:
        self._most_nbytes = most_nbytes
        self._nbytes = 0
        self.lock = threading.Lock()

    def take(self, nbytes: int) -> None:
        """Add bytes; ServerBusyError above the limit. The caller holds the lock."""
        if self._nbytes and self._nbytes + nbytes > self._most_nbytes:
            raise ServerBusyError(
                "clients have not read as many bytes of streamed answers as may wait for them",
                retry_after_s=_RETRY_AFTER_S,
            )
        self._nbytes += nbytes

    def give(self, nbytes: int) -> None:
        """Subtract bytes. The caller holds the lock."""
        self._nbytes -= nbytes


class StreamedParts:
    """Counter of the parts of one stream; the run's thread adds, the sending thread removes."""

    def __init__(self, room: PartsRoom) -> None:
        self._room = room
        self._nbytes = 0
        self._is_over = False

    def add(self, nbytes: int) -> None:
        """Count a waiting part; ServerBusyError above the limit, CancelledError after the end."""
        with self._room.lock:
            if self._is_over:
                raise CancelledError("nobody reads the stream any more")
            self._room.take(nbytes)
            self._nbytes += nbytes

    def remove(self, nbytes: int) -> None:
        """Stop counting a part that was sent."""
        with self._room.lock:
            self._room.give(nbytes)
            self._nbytes -= nbytes

    def end(self) -> None:
        """Stop counting all parts of this stream, and refuse further ones."""
        with self._room.lock:
            self._is_over = True
            self._room.give(self._nbytes)
            self._nbytes = 0
