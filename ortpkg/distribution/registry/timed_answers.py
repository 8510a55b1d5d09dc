"""HTTP answers whose parts must arrive within a time limit, even if the server sends slowly.

A socket's own timeout bounds only one wait for bytes. A server that sends one byte at a time, in a
header or in a body, would hold its client for ever.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import urllib3

#: Longest time from sending a request until the head of its answer is complete.
MOST_HEAD_S = 120.0


class LateAnswerError(TimeoutError):
    """Part of an answer did not arrive in time."""


class _Until(threading.local):
    """Deadline of the part that this thread is reading, and the message if it passes."""

    time_s: float | None = None
    message: str = ""


_until = _Until()


@contextlib.contextmanager
def reading_for(duration_s: float, message: str) -> Iterator[None]:
    """Limit the time that this thread may read.

    Raises:
        LateAnswerError: The time is over; ``message`` is its text.
    """
    outer_limit = (_until.time_s, _until.message)
    _until.time_s, _until.message = time.monotonic() + max(0.0, duration_s), message
    try:
        yield
    finally:
        _until.time_s, _until.message = outer_limit


class _TimedReader(io.RawIOBase):
    """Raw stream of a socket whose reads respect the thread's deadline."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__()
        self._sock = sock
        self._timeout_s = sock.gettimeout()
        self._raw: Any = sock.makefile("rb", buffering=0)
        self._head_until_s = time.monotonic() + MOST_HEAD_S

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        number: int = self._raw.fileno()
        return number

    def readinto(self, buffer: Any) -> int | None:
        until_s, message = _until.time_s, _until.message
        if until_s is None:
            until_s = self._head_until_s
            message = f"the head of its answer was not whole after {MOST_HEAD_S:g} s"
        left_s = until_s - time.monotonic()
        if left_s <= 0.0:
            raise LateAnswerError(message)
        is_short = self._timeout_s is None or left_s < self._timeout_s
        self._sock.settimeout(left_s if is_short else self._timeout_s)
        try:
            nbytes: int | None = self._raw.readinto(buffer)
        except TimeoutError as error:
            if is_short:
                raise LateAnswerError(message) from error
            raise
        return nbytes

    def close(self) -> None:
        self._raw.close()
        super().close()


class _TimedResponse(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *arguments: Any, **named: Any) -> None:
        super().__init__(sock, *arguments, **named)
        untimed, self.fp = self.fp, io.BufferedReader(_TimedReader(sock), io.DEFAULT_BUFFER_SIZE)
        untimed.close()


class _TimedConnection(urllib3.connection.HTTPConnection):
    response_class = _TimedResponse


class _TimedTlsConnection(urllib3.connection.HTTPSConnection):
    response_class = _TimedResponse


class _TimedPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _TimedConnection


class _TimedTlsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _TimedTlsConnection


def with_timed_answers(manager: urllib3.PoolManager) -> urllib3.PoolManager:
    """Return the same manager, whose new connections limit the time of answers."""
    manager.pool_classes_by_scheme = {"http": _TimedPool, "https": _TimedTlsPool}
    return manager
