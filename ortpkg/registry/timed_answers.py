"""Answers of HTTP whose parts have a time in which they have to come, however slowly they drip.

A socket's own timeout bounds one wait for bytes. A server that sends a byte at a time, in a header,
between two parts of a body or behind it, would hold its client for ever.
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

#: The head of an answer has to be whole so long after the request was sent.
MOST_HEAD_S = 120.0


class LateAnswerError(TimeoutError):
    """A part of an answer was not whole in its time."""


class _Until(threading.local):
    """When the part that this thread reads has to be there, and what to say where it is not."""

    time_s: float | None = None
    message: str = ""


_until = _Until()


@contextlib.contextmanager
def reading_for(duration_s: float, message: str) -> Iterator[None]:
    """Gives what this thread reads inside so long; LateAnswerError, with ``message``, after it."""
    outer_limit = (_until.time_s, _until.message)
    _until.time_s, _until.message = time.monotonic() + max(0.0, duration_s), message
    try:
        yield
    finally:
        _until.time_s, _until.message = outer_limit


class _TimedReader(io.RawIOBase):
    """The bytes that come from a socket."""

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
    """The same manager; what its connections read from now on has its time."""
    manager.pool_classes_by_scheme = {"http": _TimedPool, "https": _TimedTlsPool}
    return manager
