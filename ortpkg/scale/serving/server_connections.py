"""HTTP connections with limits on their number and on the time and size of request heads.

uvicorn waits for the head of a first request without limit, keeps all its lines and those after a
body, and all requests that arrive before the answer to the previous one. It refuses new clients
while idle old ones take all connections, and when it ends, it resets clients that are connected but
not accepted yet.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import time
from typing import Any

import uvicorn
from httptools import HttpParserError
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

#: Time for all lines of a request's head, and for a new connection to start one.
_HEAD_S = 20.0
_HEAD_NBYTES = 64 << 10
_MOST_LINES = 200
#: Most requests that wait on one connection for the previous answer.
_MOST_PIPELINED = 32
#: Time for the requests of clients that are connected when the server ends.
_LAST_REQUESTS_S = 0.5
_TICK_S = 0.02


class OpenConnections:
    """Open connections of a server.

    Args:
        most_open: Most open connections. One more replaces the connection that has been without a
            request for the longest time.
        write_s: Time that a client may let an answer wait, in seconds.

    Attributes:
        is_ending: True if each connection may have at most one more request.
    """

    def __init__(self, most_open: int, write_s: float) -> None:
        self.is_ending = False
        self.write_s = write_s
        self._all: set[BoundedConnection] = set()
        self._most = most_open
        self._idle: dict[BoundedConnection, None] = {}

    @property
    def unsent_nbytes(self) -> int:
        """Bytes of answers that wait for clients to read them."""
        return sum(connection.transport.get_write_buffer_size() for connection in self._all)

    def enter(self, connection: BoundedConnection) -> None:
        """Count a connection as open."""
        self._all.add(connection)

    def end(self, connection: BoundedConnection) -> None:
        """Forget a connection that has ended."""
        self._all.discard(connection)
        self.leave(connection)

    def make_room(self, count: int) -> bool:
        """Return True if ``count`` may be open, after closing an idle connection if necessary."""
        if count <= self._most:
            return True
        longest = next(iter(self._idle), None)
        if longest is None:
            return False
        self.leave(longest)
        longest.transport.abort()
        return True

    def rest(self, connection: BoundedConnection) -> None:
        """Record that a connection has no request."""
        self._idle[connection] = None

    def leave(self, connection: BoundedConnection) -> None:
        """Record that a connection has a request or has ended."""
        self._idle.pop(connection, None)


class BoundedConnection(HttpToolsProtocol):
    """One of the ``open_connections`` of a server."""

    def __init__(self, open_connections: OpenConnections, **options: Any) -> None:
        super().__init__(**options)
        self._open = open_connections
        self._idle_nbytes = 0  # since a head ended, or a part of a body arrived
        self._head_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Accept the connection, or answer that there are too many."""
        super().connection_made(transport)
        self._open.enter(self)
        if self._open.make_room(len(self.connections)):
            self._open.rest(self)
            self._begin_head()
        else:
            self._refuse(b"503 Service Unavailable\r\nretry-after: 1", "too many are connected")

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection, which the client or the server has closed."""
        self._end_head()
        self._end_write()
        self._open.end(self)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Start the timer after which a client that does not read loses its connection."""
        super().pause_writing()
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(self._open.write_s, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop the timer: the client has read what was buffered for it."""
        self._end_write()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """Process data; too much that is not a body ends the connection."""
        if self.transport.is_closing():
            return
        self._idle_nbytes += len(data)
        super().data_received(data)
        if self._idle_nbytes > _HEAD_NBYTES and not self.transport.is_closing():
            self.send_400_response("The head of the request is too long.")

    def send_400_response(self, msg: str) -> None:
        """End the connection with the reason in JSON, as the protocol requires."""
        self._refuse(b"400 Bad Request", msg)

    def on_message_begin(self) -> None:
        """Start the timer of the head with the first line of a request."""
        super().on_message_begin()
        if self._head_timer is None:
            self._begin_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Process a line of the head; lines after a body are ignored."""
        if self._head_timer is None:
            return
        if len(self.headers) >= _MOST_LINES:
            raise HttpParserError("too many lines")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Stop the timer of the head: from now on the application's limits apply."""
        self._end_head()
        self._idle_nbytes = 0
        if len(self.pipeline) >= _MOST_PIPELINED:
            raise HttpParserError("too many requests wait on one connection")
        self._open.leave(self)
        super().on_headers_complete()
        if self._open.is_ending and self.cycle is not None:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Process a part of a request's body, which does not count as data between requests."""
        self._idle_nbytes = 0
        super().on_body(body)

    def on_response_complete(self) -> None:
        """Record that the answer was sent; another request may follow."""
        super().on_response_complete()
        if not self.transport.is_closing() and self.cycle.response_complete:
            self._open.rest(self)

    def _refuse(self, status: bytes, reason: str) -> None:
        body = json.dumps({"error": reason}).encode()
        self.transport.write(
            b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
            b"connection: close\r\n\r\n%b" % (status, len(body), body)
        )
        self.transport.close()

    def _begin_head(self) -> None:
        self._head_timer = self.loop.call_later(_HEAD_S, self.transport.close)

    def _end_write(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _end_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


class HttpServer(uvicorn.Server):
    """Server that ignores the process's signals, and answers all connected clients at its end."""

    def __init__(
        self, config: uvicorn.Config, open_connections: OpenConnections, listener: socket.socket
    ) -> None:
        super().__init__(config)
        self._open, self._listener = open_connections, listener

    def capture_signals(self) -> contextlib.AbstractContextManager[None]:
        """Return an empty context, because both protocols end by the same signals."""
        return contextlib.nullcontext()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more connections, and end once the existing ones have their answers."""
        self._open.is_ending = True
        waiting = self._waiting()
        for item in self.servers:
            item.close()
        self._listener.close()
        coming = [asyncio.create_task(self._take(item)) for item in waiting]
        ends_s = time.monotonic() + _LAST_REQUESTS_S
        if coming:
            await asyncio.wait(coming, timeout=_LAST_REQUESTS_S)
        while self.server_state.connections and time.monotonic() < ends_s:
            await asyncio.sleep(_TICK_S)
        for task in coming:
            task.cancel()
        await super().shutdown(sockets)

    async def _take(self, client: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):  # it has gone, or does not speak TLS
            await loop.connect_accepted_socket(self._connection, client, ssl=self.config.ssl)

    def _waiting(self) -> list[socket.socket]:
        """Return clients that are connected but not accepted yet; they would be reset."""
        clients: list[socket.socket] = []
        self._listener.setblocking(False)
        with contextlib.suppress(OSError):  # no more, or none that this process may have
            while True:
                clients.append(self._listener.accept()[0])
        return clients

    def _connection(self) -> asyncio.Protocol:
        connection: asyncio.Protocol = self.config.http_protocol_class(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return connection
