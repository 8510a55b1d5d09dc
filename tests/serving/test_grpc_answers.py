"""Answers of gRPC are counted until they are read; who does not read them is cut off."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

import pytest

from ortpkg.foundations.errors import ServerBusyError
from ortpkg.scale.serving import grpc_answers
from ortpkg.scale.serving.grpc_answers import UnreadAnswers, close_connections

OPEN_FILES = Path("/dev/fd")

has_open_files = pytest.mark.skipif(
    not OPEN_FILES.is_dir(), reason="this system does not list the files that are open"
)


class Call:
    """Stands in for the context of a call."""

    def __init__(self, peer: str = "ipv4:192.0.2.1:5") -> None:
        self._peer = peer
        self._callbacks: list[Callable[[Call], None]] = []

    def peer(self) -> str:
        return self._peer

    def add_done_callback(self, callback: Callable[[Call], None]) -> None:
        self._callbacks.append(callback)

    def end(self) -> None:
        for callback in self._callbacks:
            callback(self)


def test_answers_beyond_what_may_wait_are_refused_until_others_are_read() -> None:
    async def fill() -> None:
        unread, first = UnreadAnswers(100, 60), Call()
        unread.add(60, first)
        with pytest.raises(ServerBusyError, match="have not read as many bytes"):
            unread.add(41, Call())
        unread.add(40, Call())
        first.end()
        unread.add(60, Call())

    asyncio.run(fill())


def test_one_answer_that_is_larger_than_all_may_be_is_sent_alone() -> None:
    async def fill() -> None:
        unread, large = UnreadAnswers(100, 60), Call()
        unread.add(1000, large)
        with pytest.raises(ServerBusyError):
            unread.add(1, Call())
        large.end()
        unread.add(1, Call())

    asyncio.run(fill())


def test_clients_that_do_not_read_in_time_are_cut_off_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cut: list[set[str]] = []
    monkeypatch.setattr(grpc_answers, "close_connections", lambda peers: cut.append(set(peers)))

    async def wait() -> None:
        unread, read = UnreadAnswers(100, 0.01), Call("ipv4:192.0.2.1:1")
        for peer in ("ipv4:192.0.2.1:2", "ipv4:192.0.2.1:3"):
            unread.add(1, Call(peer))
        unread.add(1, read)
        read.end()
        while not cut:
            await asyncio.sleep(0.01)

    asyncio.run(wait())
    assert cut == [{"ipv4:192.0.2.1:2", "ipv4:192.0.2.1:3"}]


@has_open_files
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_connections_of_a_peer_are_closed_and_no_others(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with ExitStack() as stack:
        try:
            listener = stack.enter_context(socket.create_server((host, 0), family=family))
        except OSError:
            pytest.skip("no IPv6 here")
        clients, ports = [], []
        for _ in range(2):
            client = stack.enter_context(socket.create_connection(listener.getsockname()[:2]))
            client.settimeout(60)
            stack.enter_context(listener.accept()[0])
            clients.append(client)
            ports.append(client.getsockname()[1])
        before = len([*OPEN_FILES.iterdir()])
        name = f"ipv6:{quote('[::1]')}" if ":" in host else f"ipv4:{host}"
        close_connections([f"{name}:{ports[0]}"])
        assert clients[0].recv(1) == b""
        clients[1].settimeout(0.1)
        with pytest.raises(TimeoutError):
            clients[1].recv(1)
        assert len([*OPEN_FILES.iterdir()]) == before
