"""Connections of HTTP: no more than there may be, each with the head of its request in time.

uvicorn waits for the head of a first request as long as a client likes, however long it gets, and
refuses new clients where old ones that say nothing take all connections.
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


class OpenConnections:
    """The connections of a server.

    ``most``: how many may be open. One more takes the place of that which has been without a
    request for the longest time.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._idle: dict[BoundedConnection, None] = {}

    def make_room(self, count: int) -> bool:
        """Whether ``count`` may be open, now that the place of an idle one was taken if need be."""
        if count <= self._most:
            return True
        longest = next(iter(self._idle), None)
        if longest is None:
            return False
        self.leave(longest)
        longest.transport.abort()
        return True

    def rest(self, connection: BoundedConnection) -> None:
        """It has no request from now on."""
        self._idle[connection] = None

    def leave(self, connection: BoundedConnection) -> None:
        """It has one, or has ended."""
        self._idle.pop(connection, None)


class BoundedConnection(HttpToolsProtocol):
    """One of the ``open_connections`` of a server."""

    def __init__(self, open_connections: OpenConnections, **options: Any) -> None:
        super().__init__(**options)
        self._open = open_connections
        self._head_nbytes = 0
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Takes the connection, or says that there are too many."""
        super().connection_made(transport)
        if self._open.make_room(len(self.connections)):
            self._open.rest(self)
            self._begin_head()
        else:
            transport.write(_FULL)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        self._end_head()
        self._open.leave(self)
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
        self._open.leave(self)
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        """The answer has gone; perhaps another request comes."""
        super().on_response_complete()
        if not self.transport.is_closing() and self.cycle.response_complete:
            self._open.rest(self)

    def _begin_head(self) -> None:
        self._head_nbytes = 0
        self._head_timer = self.loop.call_later(_HEAD_S, self.transport.close)

    def _end_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
