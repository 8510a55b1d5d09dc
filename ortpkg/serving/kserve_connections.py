"""Connections of HTTP: no more than there may be, each with the head of its request in time.

uvicorn waits for the head of a first request as long as a client likes, however long it gets, and
counts connections when their requests begin.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

#: For all lines of a request's head, and for a new connection to begin with it.
_HEAD_S = 20.0
_HEAD_NBYTES = 64 << 10
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\n"
    b"connection: close\r\n\r\n"
)


class BoundedConnection(HttpToolsProtocol):
    """One connection. ``limit_concurrency`` of uvicorn's configuration says how many may be."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._most_connections: int = self.config.limit_concurrency
        self.limit_concurrency = None  # which uvicorn counts later
        self._head_nbytes = 0
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Takes the connection, or says that there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self._most_connections:
            transport.write(_FULL)
            transport.close()
        else:
            self._begin_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        self._end_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Reads on; a head that is too long ends the connection."""
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self._head_timer is not None:
            self._head_nbytes += len(data)
            if self._head_nbytes > _HEAD_NBYTES and not self.transport.is_closing():
                self.send_400_response("The head of the request is too long.")

    def on_message_begin(self) -> None:
        """The first line of a request."""
        super().on_message_begin()
        if self._head_timer is None:
            self._begin_head()

    def on_headers_complete(self) -> None:
        """The head is here: from now on the application counts."""
        self._end_head()
        super().on_headers_complete()

    def _begin_head(self) -> None:
        self._head_nbytes = 0
        self._head_timer = self.loop.call_later(_HEAD_S, self.transport.close)

    def _end_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
