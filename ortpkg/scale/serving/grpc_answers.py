"""Limits on gRPC answers that wait for clients: their size together, and the time of each.

gRPC keeps an answer until the client has read it, however long that takes, and its Python package
cannot cancel a call. So the connection of a client that does not read is closed.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from ortpkg.foundations.errors import ServerBusyError
from ortpkg.scale.serving.server_log import log_warning

_RETRY_AFTER_S = 1.0
_CUT_TICK_S = 0.05
#: Directories of a process's open files: Linux, macOS.
_OPEN_FILES = (Path("/proc/self/fd"), Path("/dev/fd"))


class UnreadAnswers:
    """Answers on their way to clients.

    Args:
        most_nbytes: Limit of all of them; a single one may be larger.
        read_s: Time in which a client must read one, in seconds.
    """

    def __init__(self, most_nbytes: int, read_s: float) -> None:
        self._most_nbytes = most_nbytes
        self._read_s = read_s
        self._nbytes = 0
        self._late_peers: set[str] = set()

    def add(self, nbytes: int, context: Any) -> None:
        """Count the answer of a call until its client has read it or is cut off.

        Raises:
            ServerBusyError: Too many bytes are waiting.
        """
        if self._nbytes and self._nbytes + nbytes > self._most_nbytes:
            raise ServerBusyError(
                "clients have not read as many bytes of answers as may wait for them",
                retry_after_s=_RETRY_AFTER_S,
            )
        self._nbytes += nbytes
        alarm = asyncio.get_running_loop().call_later(self._read_s, self._cut, context.peer())

        def remove(_context: Any) -> None:
            alarm.cancel()
            self._nbytes -= nbytes

        context.add_done_callback(remove)

    def _cut(self, peer: str) -> None:
        """Close the connections of a peer soon.

        Peers that are late together are looked up together.
        """
        if not self._late_peers:
            asyncio.get_running_loop().call_later(_CUT_TICK_S, self._cut_late_peers)
        self._late_peers.add(peer)

    def _cut_late_peers(self) -> None:
        peers, self._late_peers = self._late_peers, set()
        log_warning("unread", clients=len(peers), limit_s=self._read_s)
        close_connections(peers)


def close_connections(peers: Collection[str]) -> None:
    """Close this process's connections to peers, in gRPC's notation: ``ipv6:%5B::1%5D:50123``."""
    addresses = {unquote(peer).partition(":")[2] for peer in peers}
    folder = next((path for path in _OPEN_FILES if path.is_dir()), None)
    for path in [*folder.iterdir()] if folder else ():
        connection = _socket_of(int(path.name))
        if connection is None:
            continue
        with connection, suppress(OSError):  # it is not, or no longer, connected
            if _address_of(connection) in addresses:
                connection.shutdown(socket.SHUT_RDWR)


def _socket_of(descriptor: int) -> socket.socket | None:
    """Return a copy of a descriptor as a socket, or None if it is not one or was closed."""
    try:
        copy = os.dup(descriptor)
    except OSError:
        return None
    try:
        return socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        return None


def _address_of(connection: socket.socket) -> str:
    """Return a connection's peer in gRPC's notation without its family, or ""."""
    name = connection.getpeername()
    if not isinstance(name, tuple):
        return ""
    host, port = name[0].removeprefix("::ffff:"), name[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
