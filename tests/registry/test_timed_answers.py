"""A server that sends a byte at a time holds nobody for ever: head, body and trailer have a time."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from ortpkg.distribution.registry import http_transport, timed_answers
from ortpkg.distribution.registry.http_retries import RetryPolicy
from ortpkg.distribution.registry.http_transport import HttpTransport, Request
from ortpkg.foundations.errors import RegistryUnreachableError

_HEAD = b"HTTP/1.1 200 OK\r\n"
_CHUNKED = _HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
#: What comes at once, and what comes again and again behind it, a byte at a time.
DRIPS = {
    "status": (b"", b"HTTP/1.1 200 "),
    "header": (_HEAD, b"X-Slow: and slower\r\n"),
    "interim": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "body": (_HEAD + b"Content-Length: 100000\r\n\r\n", b"x"),
    "size of a chunk": (_CHUNKED, b"0"),
    "extension of a chunk": (_CHUNKED + b"1;", b"y"),
    "trailer": (_CHUNKED + b"1\r\nx\r\n0\r\n", b"X-Slow: and slower\r\n"),
}


@contextlib.contextmanager
def dripping(first: bytes, drip: bytes) -> Iterator[str]:
    """The address of a server whose answer never ends."""
    ended = threading.Event()
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            connection, _ = listening.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(first)
                while not ended.is_set():
                    for index in range(len(drip)):
                        connection.sendall(drip[index : index + 1])
                        time.sleep(0.01)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    finally:
        ended.set()
        listening.close()
        thread.join()


@pytest.fixture
def transport(monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpTransport]:
    monkeypatch.setattr(timed_answers, "MOST_HEAD_S", 0.3)
    monkeypatch.setattr(http_transport, "_MOST_ANSWER_S", 0.3)
    monkeypatch.setattr(http_transport, "_DRIP_S", 0.3)
    transport = HttpTransport(policy=RetryPolicy(most_tries=1))
    yield transport
    transport.close()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("part", DRIPS)
def test_an_answer_that_drips_is_given_up(transport: HttpTransport, part: str) -> None:
    with dripping(*DRIPS[part]) as url, pytest.raises(RegistryUnreachableError, match=r"0\.3 s"):
        transport.exchange(Request(method="GET", url=url), most_nbytes=1 << 20)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("part", DRIPS)
def test_what_drips_for_long_is_not_asked_again(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    monkeypatch.setattr(timed_answers, "MOST_HEAD_S", 0.3)
    monkeypatch.setattr(http_transport, "_MOST_ANSWER_S", 0.3)
    policy = RetryPolicy(most_tries=6, first_pause_s=0.01, most_waiting_s=0.25)
    transport = HttpTransport(policy=policy)
    asked: list[str] = []
    followed = transport._followed

    def counted(request: Request) -> http_transport.Answer:
        asked.append(request.url)
        return followed(request)

    monkeypatch.setattr(transport, "_followed", counted)
    with dripping(*DRIPS[part]) as url, pytest.raises(RegistryUnreachableError, match=r"0\.3 s"):
        transport.exchange(Request(method="GET", url=url), most_nbytes=1 << 20)
    transport.close()
    assert len(asked) == 1


@pytest.mark.parametrize("part", ["body", "size of a chunk", "extension of a chunk", "trailer"])
def test_a_blob_that_drips_is_given_up(transport: HttpTransport, part: str) -> None:
    with (
        dripping(*DRIPS[part]) as url,
        transport.open(Request(method="GET", url=url)) as answer,
        pytest.raises(RegistryUnreachableError, match=r"bytes in 0\.3 s are too few"),
    ):
        list(answer.chunks())


def test_a_connection_that_was_hurried_is_as_patient_as_before(transport: HttpTransport) -> None:
    """The time of one answer is none of the next one's."""
    with (
        timed_answers.reading_for(0.0, "late"),
        timed_answers.reading_for(60.0, "later"),
        dripping(_HEAD + b"Content-Length: 2\r\n\r\n", b"ok") as url,
    ):
        answer = transport.exchange(Request(method="GET", url=url), most_nbytes=2)

    assert answer.body == b"ok"
