"""Clients, in a process of their own: each sends its one request again and again.

They make and read nothing of the protocol while time runs, so that a core is the server's: HTTP is
written to sockets as bytes over kept connections, and gRPC's messages go as bytes, too. The clients
that people use (tritonclient.aio) take more processor time for a request than a server does.
"""

from __future__ import annotations

import asyncio
import math
import statistics
import time
from dataclasses import dataclass
from typing import Any

import grpc
import uvloop

_INFER = "/inference.GRPCInferenceService/ModelInfer"
_HEAD_END = b"\r\n\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What clients do.

    Attributes:
        address: host:port.
        request: over gRPC the message, over HTTP the whole request.
        is_grpc: which.
        clients: how many at once, on a connection each.
        duration_s: for how long; every client gets an answer at least.
        most: so many requests at most.
    """

    address: str
    request: bytes
    is_grpc: bool = False
    clients: int = 1
    duration_s: float = 1.0
    most: int = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What came of it.

    Attributes:
        latencies_s: of the requests, sorted.
        duration_s: of all together.
        last: the last answer.
    """

    latencies_s: list[float]
    duration_s: float
    last: bytes

    @property
    def rate(self) -> float:
        """Requests a second."""
        return len(self.latencies_s) / self.duration_s

    @property
    def median_s(self) -> float:
        """Half of the requests took less."""
        return statistics.median(self.latencies_s)

    @property
    def slow_s(self) -> float:
        """99 of 100 requests took less."""
        return self.latencies_s[math.ceil(0.99 * (len(self.latencies_s) - 1))]


def answers_to(load: Load) -> Answers:
    """Does it. ConnectionError where an answer is a refusal."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_Clients(load).run())


class _Clients:
    def __init__(self, load: Load) -> None:
        self._load = load
        self._latencies_s: list[float] = []
        self._left = load.most
        self._end_s = 0.0
        self.last: bytes | bytearray = b""

    async def run(self) -> Answers:
        start = time.perf_counter()
        self._end_s = start + self._load.duration_s
        client = self._call if self._load.is_grpc else self._connect
        await asyncio.gather(*(client() for _ in range(self._load.clients)))
        duration_s = time.perf_counter() - start
        return Answers(
            latencies_s=sorted(self._latencies_s), duration_s=duration_s, last=bytes(self.last)
        )

    def may_go_on(self) -> bool:
        """Whether one more request is to be sent."""
        self._left -= 1
        return self._left >= 0 and time.perf_counter() < self._end_s

    def note(self, began_s: float, answer: bytes | bytearray) -> None:
        """An answer came."""
        self._latencies_s.append(time.perf_counter() - began_s)
        self.last = answer

    async def _connect(self) -> None:
        host, _, port = self._load.address.rpartition(":")
        loop = asyncio.get_running_loop()
        transport, connection = await loop.create_connection(
            lambda: _Connection(self, self._load.request), host, int(port)
        )
        try:
            await connection.ended
        finally:
            transport.close()

    async def _call(self) -> None:
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
        async with grpc.aio.insecure_channel(self._load.address, options) as channel:
            infer = channel.unary_unary(_INFER)
            await channel.channel_ready()
            while True:
                began_s = time.perf_counter()
                self.note(began_s, await infer(self._load.request))
                if not self.may_go_on():
                    return


class _Connection(asyncio.Protocol):
    """One kept connection over HTTP, with one request on its way at a time."""

    def __init__(self, clients: _Clients, request: bytes) -> None:
        self._clients, self._request = clients, request
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:  # uvloop's is no asyncio.Transport
        """Sends the first request."""
        self._transport = transport
        self._send()

    def _send(self) -> None:
        self._answer = bytearray()
        self._expected: int | None = None
        self._began_s = time.perf_counter()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Sends the next request where this was the end of an answer."""
        self._answer += data
        if self._expected is None:
            self._expected = _nbytes_of_answer(self._answer)
        if self._expected is None or len(self._answer) < self._expected:
            return
        if not self._answer.startswith(b"HTTP/1.1 200 "):
            self._fail(self._answer)
            return
        self._clients.note(self._began_s, self._answer)
        if self._clients.may_go_on():
            self._send()
        else:
            self.ended.set_result(None)

    def connection_lost(self, _error: Exception | None) -> None:
        """Fails where more was to come."""
        self._fail(b"the server closed the connection")

    def _fail(self, answer: bytes | bytearray) -> None:
        if not self.ended.done():
            self.ended.set_exception(ConnectionError(answer.decode(errors="replace")[:1000]))


def _nbytes_of_answer(begin: bytes | bytearray) -> int | None:
    """Of its head and body; None where the head has not come."""
    head, end, _ = begin.partition(_HEAD_END)
    if not end:
        return None
    _, _, rest = head.lower().partition(b"\r\ncontent-length:")
    return len(head) + len(end) + int(rest.partition(b"\r\n")[0])
