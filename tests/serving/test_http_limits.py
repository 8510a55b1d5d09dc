"""Requests over HTTP before anybody reads them: too large, too slow, not allowed, abandoned."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from ortpkg.foundations.errors import InvalidFeedError, NotServingError, OrtpkgError
from ortpkg.scale.serving import http_exchange
from ortpkg.scale.serving.http_exchange import Message, Receive, Scope, Send
from ortpkg.scale.serving.http_limits import GuardedApplication
from ortpkg.scale.serving.serving_options import ServingLimits

LIMITS = ServingLimits(concurrency=1, request_nbytes=10, timeout_s=0.2)
BODY = (b"12345", b"678")


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Sends back what came."""
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


class Client:
    """Sends the parts of a body, and keeps what comes back."""

    def __init__(
        self, parts: Sequence[bytes] = BODY, *, stays: bool = True, says_more: bool = False
    ) -> None:
        self._parts = list(parts)
        self._stays = stays
        self._says_more = says_more
        self.sent: list[Message] = []

    async def receive(self) -> Message:
        """The next part; after the last one it stays or goes."""
        if self._parts:
            part = self._parts.pop(0)
            has_more = bool(self._parts) or self._says_more
            return {"type": "http.request", "body": part, "more_body": has_more}
        if self._stays:
            await asyncio.sleep(60)
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Keeps it."""
        self.sent.append(message)

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.sent[0]["headers"])

    @property
    def error(self) -> str:
        return str(json.loads(self.sent[1]["body"])["error"])


def ask(
    client: Client,
    application: Any = echo,
    *,
    path: str = "/v2/models/m/infer",
    token: str | None = None,
    logs_requests: bool = False,
    **headers: str,
) -> Client:
    told = {"transfer-encoding": "chunked", **headers}
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "headers": [
            (name.replace("_", "-").encode(), value.encode()) for name, value in told.items()
        ],
    }
    guarded = GuardedApplication(application, LIMITS, token=token, logs_requests=logs_requests)
    asyncio.run(asyncio.wait_for(guarded(scope, client.receive, client.send), 30))
    return client


def test_a_request_within_its_limits_passes() -> None:
    client = ask(Client())
    assert (client.status, client.sent[1]["body"]) == (200, b"12345678")
    assert b"connection" not in client.headers


def test_a_body_that_is_too_large_is_not_read_to_its_end() -> None:
    client = ask(Client([b"12345", b"67890", b"1", b"never read"]))
    assert client.status == 413
    assert client.error == "a request may have 10 B"
    assert client.headers[b"connection"] == b"close"


def test_a_body_that_says_that_it_is_too_large_is_not_read_at_all() -> None:
    assert ask(Client([]), content_length="11").status == 413


def test_a_body_that_comes_too_slowly_is_given_up() -> None:
    class Slow(Client):
        async def receive(self) -> Message:
            """A part, and never the next."""
            await asyncio.sleep(0 if self._parts else 60)
            return {"type": "http.request", "body": self._parts.pop(), "more_body": True}

    client = ask(Slow([b"1"]))
    assert client.status == 408
    assert client.error == "the request did not come within 0.2 s"
    assert client.headers[b"connection"] == b"close"


def test_all_bodies_together_are_bounded() -> None:
    async def run() -> list[Client]:
        go = asyncio.Event()

        async def hold(scope: Scope, receive: Receive, send: Send) -> None:
            await receive()
            await go.wait()
            await echo(scope, receive, send)

        guarded = GuardedApplication(hold, ServingLimits(concurrency=1, request_nbytes=10))
        clients = [Client([b"1234567890", b""]) for _ in range(9)]
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/",
            "headers": [(b"transfer-encoding", b"chunked")],
        }
        tasks = [
            asyncio.create_task(guarded(dict(scope), each.receive, each.send)) for each in clients
        ]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        go.set()
        await asyncio.gather(*tasks)
        after = Client()
        await guarded(dict(scope), after.receive, after.send)
        return [*clients, after]

    *clients, after = asyncio.run(run())
    assert sorted(each.status for each in clients) == [200] * 8 + [429]
    assert after.status == 200


def test_a_compressed_body_is_refused() -> None:
    client = ask(Client(), content_encoding="gzip")
    assert (client.status, client.error.rpartition(", ")[2]) == (400, "without Content-Encoding")


@pytest.mark.parametrize(
    "authorization", ["", "Bearer", "Bearer wrong", "Basic secret", "secret", "Bearer secrets"]
)
def test_without_the_token_nothing_is_answered(authorization: str) -> None:
    client = ask(Client(), token="secret", authorization=authorization)
    assert client.status == 401
    assert client.headers[b"www-authenticate"] == b"Bearer"


@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
def test_the_token_opens_and_health_needs_none(scheme: str) -> None:
    assert ask(Client(), token="secret", authorization=f"{scheme} secret").status == 200
    for path in ("/v2/health/live", "/v2/health/ready"):
        assert ask(Client(), token="secret", path=path).status == 200
    assert ask(Client(), token="secret", path="/v2/health/live/").status == 401


def test_an_error_is_an_answer_and_a_fault_of_ours_is_logged_and_not_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def misfit(*_: Any) -> None:
        raise InvalidFeedError("input 'x' is missing", name="x")

    async def fail(*_: Any) -> None:
        raise KeyError("a secret of ours")

    assert ask(Client(), misfit).error == "input 'x' is missing"
    assert not caplog.records
    client = ask(Client(), fail)
    assert client.status == 500
    assert "secret" not in client.error
    (record,) = caplog.records
    assert "a secret of ours" in str(vars(record))


def test_a_client_that_goes_within_its_body_is_no_fault_of_ours(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def strict(scope: Scope, receive: Receive, send: Send) -> None:
        while (message := await receive())["type"] == "http.request":
            pass
        raise ConnectionError(message["type"])

    with caplog.at_level(logging.INFO):
        assert ask(Client(stays=False, says_more=True), strict).sent == []
    (record,) = caplog.records
    assert vars(record)["ortpkg_fields"]["status"] == 499


def test_a_request_whose_client_goes_is_ended() -> None:
    ended = []

    async def forever(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append(scope["path"])
            raise

    ask(Client(stays=False), forever)
    assert ended == ["/v2/models/m/infer"]


def test_a_refusal_is_logged_unless_it_is_that_of_a_probe(caplog: pytest.LogCaptureFixture) -> None:
    async def refuse(*_: Any) -> None:
        raise NotServingError("not ready", retry_after_s=1)

    with caplog.at_level(logging.INFO, "ortpkg.scale.serving"):
        assert ask(Client(), refuse, path="/v2/health/ready").status == 503
        assert not caplog.records
        assert ask(Client(), refuse).status == 503
    assert len(caplog.records) == 1


def test_requests_are_logged_where_that_is_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "ortpkg.scale.serving"):
        ask(Client())
        assert not caplog.records
        ask(Client(), logs_requests=True)
    (record,) = caplog.records
    fields = vars(record)["ortpkg_fields"]
    assert (fields["status"], fields["received_nbytes"], fields["sent_nbytes"]) == (200, 8, 8)


def test_a_body_that_is_refused_is_read_on_before_the_answer_and_not_kept() -> None:
    client = Client([b"x" * 11, *[b"y" * 1000] * 20])
    assert ask(client).status == 413
    assert client._parts == []
    assert client.headers[b"connection"] == b"close"


def test_of_a_body_without_end_a_bounded_amount_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_exchange, "_MOST_DRAINED_NBYTES", 5000)
    client = Client([b"x" * 11, *[b"y" * 1000] * 20])
    assert ask(client).status == 413
    assert len(client._parts) == 15


def test_a_client_that_asks_before_it_sends_is_told_at_once() -> None:
    client = Client([b"x" * 1000])
    assert ask(client, content_length="1000", expect="100-continue").status == 413
    assert len(client._parts) == 1


def test_answers_that_nobody_reads_are_bounded() -> None:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-length", b"30")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"x" * 30})

    for unsent, status in ((0, 200), (50, 200), (51, 429)):
        guarded = GuardedApplication(answer, LIMITS, unsent_nbytes=partial(int, unsent))
        client = Client()
        scope = {"type": "http", "method": "POST", "path": "/", "headers": []}
        asyncio.run(guarded(scope, client.receive, client.send))
        assert client.status == status


def test_answers_that_wait_for_their_connection_count() -> None:
    """A client that asks again without reading has its next answer wait before it is sent."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-length", b"50")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"x" * 50})

    class Stuck(Client):
        async def send(self, message: Message) -> None:
            """Keeps it, once ``go`` is set."""
            await super().send(message)
            await go.wait()

    go = asyncio.Event()

    async def run() -> list[int]:
        guarded = GuardedApplication(answer, LIMITS)
        clients = [Stuck(), Stuck(), Client()]
        scope = {"type": "http", "method": "POST", "path": "/", "headers": []}
        tasks = []
        for client in clients:
            tasks.append(asyncio.create_task(guarded(dict(scope), client.receive, client.send)))
            await asyncio.sleep(0)
        go.set()
        await asyncio.gather(*tasks)
        after = Client()
        await guarded(dict(scope), after.receive, after.send)
        return [client.status for client in [*clients, after]]

    assert asyncio.run(run()) == [200, 429, 429, 200]


@pytest.mark.parametrize(("first", "second", "sent"), [(30, 1, 2), (5, 30, 2), (5, 5, 4)])
def test_answers_in_parts_without_a_length_have_room_for_each_or_end(
    first: int, second: int, sent: int
) -> None:
    """A first part is refused with a reason, a later one ends what has begun."""

    async def stream(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * first, "more_body": True})
        await send({"type": "http.response.body", "body": b"x" * second, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    client = Client()
    guarded = GuardedApplication(stream, LIMITS, unsent_nbytes=lambda: 70)
    scope = {"type": "http", "method": "POST", "path": "/", "headers": []}
    asyncio.run(guarded(scope, client.receive, client.send))
    assert client.status == (429 if first == 30 else 200)
    assert len(client.sent) == sent


def test_an_answer_without_room_is_refused_through_starlette() -> None:
    """Starlette takes an answer as begun once it is sent, and refuses to replace it."""

    async def answer(_request: Any) -> Any:
        return Response(b"x" * 30)

    async def raise_again(_request: Any, error: Exception) -> Any:
        raise error

    application = Starlette(
        routes=[Route("/", answer, methods=["POST"])],
        exception_handlers={OrtpkgError: raise_again},
    )
    guarded = GuardedApplication(application, LIMITS, unsent_nbytes=lambda: 70)
    client = Client()
    scope = {"type": "http", "method": "POST", "path": "/", "headers": [], "query_string": b""}
    asyncio.run(guarded(scope, client.receive, client.send))
    assert client.status == 429
    assert len(client.sent) == 2
