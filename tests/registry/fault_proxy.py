"""A proxy between a client and a registry that breaks what it is told to, and counts all bytes.

It stands where the registry would: clients speak to ``proxy.host``. Faults wait in a list; the first
that fits a request takes effect on it, and is used up.
"""

from __future__ import annotations

import http.client
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import urlsplit

from tests.registry.local_server import LocalServer, at_work

_PIECE_NBYTES = 64 * 1024
_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length"})


@dataclass(kw_only=True)
class Fault:
    """What goes wrong with requests of a method whose path has ``part`` in it.

    Attributes:
        method, part: which requests; "" fits all.
        times: so often; -1: always.
        before_s: nothing happens for so long.
        cut_request: the connection breaks after so many bytes of the request's body, which the
            registry got.
        cut_answer: the connection breaks after so many bytes of the answer's body.
        is_reset: it breaks with a reset instead of an end.
        is_answer_lost: the registry does what it is asked to, and nobody hears of it.
        flip: this byte of the answer's body is another one.
        status: the answer, in place of the registry's.
        headers: headers in place of the answer's own; None takes one away.
        body: the answer's body in place of its own.
        content_length: is said of the answer, whatever it has.
        is_chunked: the answer comes in chunks, and does not say its length.
        drip_s: the answer's body comes byte by byte, so long after each other.
    """

    method: str = ""
    part: str = ""
    times: int = 1
    before_s: float = 0.0
    cut_request: int | None = None
    cut_answer: int | None = None
    is_reset: bool = False
    is_answer_lost: bool = False
    flip: int | None = None
    status: int | None = None
    headers: Mapping[str, str | None] = field(default_factory=dict)
    body: bytes | None = None
    content_length: int | None = None
    is_chunked: bool = False
    drip_s: float = 0.0


@dataclass
class FaultProxy:
    """The proxy's list of faults and its counts.

    Attributes:
        upstream: ``host:port`` of the registry.
        sent: path → bytes of bodies that went to clients; of a pull, what it moved.
        received: path → bytes of bodies that came from clients.
        requests: (method, path) → how often.
        headers: of each request, with its method and path; names in lower case.
    """

    upstream: str
    host: str = ""
    faults: list[Fault] = field(default_factory=list)
    sent: Counter[str] = field(default_factory=Counter)
    received: Counter[str] = field(default_factory=Counter)
    requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    headers: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fails(self, **fault: Any) -> None:
        """Adds a :class:`Fault`."""
        self.faults.append(Fault(**fault))

    def taken(self, method: str, path: str) -> Fault:
        """The fault for a request; one without any effect where none fits."""
        with self.lock:
            for fault in self.faults:
                if fault.times and fault.method in {"", method} and fault.part in path:
                    fault.times -= 1
                    return fault
        return Fault()

    def asked(self, method: str, part: str = "") -> int:
        """How often ``method`` came for paths with ``part`` in them."""
        return sum(n for (m, path), n in self.requests.items() if m == method and part in path)

    def with_header(self, name: str) -> list[str]:
        """The values of a header, of all requests that had it."""
        key = name.lower()
        return [headers[key] for _, _, headers in self.headers if key in headers]


@contextmanager
def fault_proxy(upstream: str) -> Iterator[FaultProxy]:
    """A proxy on a free port of this machine, before the registry at ``host:port``."""
    server = _Server(("127.0.0.1", 0), _Handler)
    proxy = server.proxy = FaultProxy(upstream=upstream)
    proxy.host = f"127.0.0.1:{server.server_address[1]}"
    with at_work(server):
        yield proxy


class _Server(LocalServer):
    proxy: FaultProxy


class _BrokenError(Exception):
    """The client's connection is to break now."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, *_: Any) -> None:
        """Nothing is printed."""

    def handle_any(self) -> None:
        proxy = self.server.proxy
        path = urlsplit(self.path).path
        with proxy.lock:
            proxy.requests[self.command, path] += 1
            headers = {name.lower(): value for name, value in self.headers.items()}
            proxy.headers.append((self.command, path, headers))
        fault = proxy.taken(self.command, path)
        time.sleep(fault.before_s)
        try:
            self._pass_on(fault, path)
        except (_BrokenError, OSError):
            self._break(is_reset=fault.is_reset)

    def _pass_on(self, fault: Fault, path: str) -> None:
        proxy = self.server.proxy
        if fault.status is not None:
            self._swallow()
            self._answer(fault, path, fault.status, {}, b"")
            return
        upstream = http.client.HTTPConnection(proxy.upstream, timeout=30)
        try:
            upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                upstream.putheader(name, value)
            upstream.endheaders()
            for piece in self._request_body(fault.cut_request):
                upstream.send(piece)
                with proxy.lock:
                    proxy.received[path] += len(piece)
            if fault.cut_request is not None:
                time.sleep(0.05)  # the registry takes what came
                raise _BrokenError
            answer = upstream.getresponse()
            try:
                body = answer.read()
            except http.client.IncompleteRead as error:
                body = error.partial  # docker-registry's 416 says that it has as many as the blob
            if fault.is_answer_lost:
                raise _BrokenError
            self._answer(fault, path, answer.status, dict(answer.getheaders()), body)
        finally:
            upstream.close()

    def _request_body(self, most: int | None) -> Iterator[bytes]:
        left = int(self.headers.get("Content-Length") or 0)
        left = left if most is None else min(left, most)
        while left:
            piece = self.rfile.read1(min(left, _PIECE_NBYTES))
            if not piece:
                raise _BrokenError
            left -= len(piece)
            yield piece

    def _swallow(self) -> None:
        for _ in self._request_body(None):
            pass

    def _answer(
        self, fault: Fault, path: str, status: int, given: Mapping[str, str], body: bytes
    ) -> None:
        body = body if fault.body is None else fault.body
        if fault.flip is not None:
            changed = bytearray(body)
            changed[fault.flip] ^= 0xFF
            body = bytes(changed)
        headers: dict[str, str | None] = {
            name: value for name, value in given.items() if name.lower() not in _HOP_BY_HOP
        }
        length = str(len(body))
        if self.command == "HEAD":
            length = next((v for k, v in given.items() if k.lower() == "content-length"), "0")
        if fault.content_length is not None:
            length = str(fault.content_length)
        self.send_response_only(status)
        for name, value in {**headers, **fault.headers}.items():
            if value is not None:
                self.send_header(name, value)
        if fault.is_chunked:
            self.send_header("Transfer-Encoding", "chunked")
            body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        elif status != 204:
            self.send_header("Content-Length", length)
        self.end_headers()
        shown = body if fault.cut_answer is None else body[: fault.cut_answer]
        for index in range(len(shown) if fault.drip_s and self.command != "HEAD" else 0):
            self.wfile.write(shown[index : index + 1])
            time.sleep(fault.drip_s)
        if self.command != "HEAD" and not fault.drip_s:
            self.wfile.write(shown)
            with self.server.proxy.lock:
                self.server.proxy.sent[path] += len(shown)
        if fault.cut_answer is not None or fault.content_length is not None:
            raise _BrokenError

    def _break(self, *, is_reset: bool) -> None:
        self.close_connection = True
        with suppress(OSError):
            if is_reset:
                self.connection.setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                )
            else:
                self.connection.shutdown(socket.SHUT_RDWR)
            self.connection.close()


for _method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"):
    setattr(_Handler, f"do_{_method}", _Handler.handle_any)
