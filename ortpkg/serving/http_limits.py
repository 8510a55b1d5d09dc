"""What an HTTP request must be before anybody reads it: small enough, quick enough, allowed.

Layers of ASGI around an application; they know no server and no application.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from ortpkg.errors import (
    InvalidRequestError,
    LimitExceededError,
    OrtpkgError,
    RequestTooLargeError,
    UnauthorizedError,
)
from ortpkg.quantities import limit_text, time_limit_text
from ortpkg.serving.refusals import Refusal, refusal_of
from ortpkg.serving.server_log import log_event, log_fault

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

#: What a load balancer asks, which has no token.
_OPEN_PATHS = frozenset({"/", "/v2/health/live", "/v2/health/ready"})


class GuardedApplication:
    """An application behind its limits; whatever is raised in there is an answer.

    Args:
        application: what answers.
        request_nbytes: the largest body; a larger one is not read to its end.
        body_s: how long a body may take to come.
        token: what clients must send as a bearer token; None: nothing.
        logs_requests: whether every request is logged, not only those that are refused.
    """

    def __init__(
        self,
        application: Application,
        *,
        request_nbytes: int,
        body_s: float,
        token: str | None,
        logs_requests: bool = False,
    ) -> None:
        self._application = application
        self._request_nbytes = request_nbytes
        self._body_s = body_s
        self._token = token
        self._logs_requests = logs_requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One connection's message, as ASGI has it."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send, self._request_nbytes, self._body_s)
        try:
            self._check_token(scope)
            exchange.check_head()
            await self._application(scope, exchange.receive, exchange.send)
        except OrtpkgError as error:
            await exchange.refuse(refusal_of(error))
        except Exception as error:  # noqa: BLE001 - nothing may end the server
            if not exchange.is_begun:
                log_fault("fault", error, path=scope["path"])
            await exchange.refuse(refusal_of(error))
        if self._logs_requests or exchange.status >= 400:
            exchange.log()

    def _check_token(self, scope: Scope) -> None:
        if self._token is None or scope["path"] in _OPEN_PATHS:
            return
        check_bearer_token(_header(scope, b"authorization"), self._token)


def check_bearer_token(authorization: str | None, token: str) -> None:
    """Raises UnauthorizedError unless ``authorization`` is the header that carries ``token``."""
    scheme, _, given = (authorization or "").partition(" ")
    is_right = hmac.compare_digest(given.strip().encode(), token.encode())
    if scheme.lower() != "bearer" or not is_right:
        raise UnauthorizedError("this server asks for a bearer token, and the request has not it")


class _Exchange:
    """One request with its answer, counted."""

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, request_nbytes: int, body_s: float
    ) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self._limit_nbytes, self._body_s = request_nbytes, body_s
        self._start = time.monotonic()
        self._is_complete = False
        self._received_nbytes = self._sent_nbytes = 0
        self.is_begun = False
        self.status = 500

    def check_head(self) -> None:
        """Raises where the header says already that the body will not do."""
        encoding = _header(self._scope, b"content-encoding")
        if encoding not in (None, "", "identity"):
            raise InvalidRequestError("bodies are taken as they are, without Content-Encoding")
        length = _header(self._scope, b"content-length")
        if length is not None and length.isdigit() and int(length[:20]) > self._limit_nbytes:
            raise self._too_large()

    async def receive(self) -> Message:
        """The next part of the body. Raises where it comes too slowly, or there is too much."""
        if self._is_complete:
            return await self._receive()
        left_s = self._start + self._body_s - time.monotonic()
        try:
            message = await asyncio.wait_for(self._receive(), max(left_s, 0))
        except TimeoutError:
            raise LimitExceededError(
                f"the request did not come within {time_limit_text(self._body_s)}", limit="body"
            ) from None
        if message["type"] == "http.request":
            self._received_nbytes += len(message.get("body", b""))
            self._is_complete = not message.get("more_body", False)
            if self._received_nbytes > self._limit_nbytes:
                raise self._too_large()
        return message

    async def send(self, message: Message) -> None:
        """A part of the answer."""
        if message["type"] == "http.response.start":
            self.is_begun = True
            self.status = message["status"]
        else:
            self._sent_nbytes += len(message.get("body", b""))
        await self._send(message)

    async def refuse(self, refusal: Refusal) -> None:
        """Says why; not where an answer has begun."""
        if self.is_begun:
            return
        body = json.dumps({"error": refusal.reason}).encode()
        headers = {
            "content-type": "application/json",
            "content-length": str(len(body)),
            **refusal.headers,
        }
        if not self._is_complete:
            headers["connection"] = "close"  # what is left of the body is not read
        await self.send(
            {
                "type": "http.response.start",
                "status": refusal.status,
                "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            }
        )
        await self.send({"type": "http.response.body", "body": body})

    def log(self) -> None:
        """Logs what became of it."""
        log_event(
            "request",
            protocol="http",
            method=self._scope["method"],
            path=self._scope["path"],
            status=self.status,
            duration_ms=round((time.monotonic() - self._start) * 1e3, 3),
            received_nbytes=self._received_nbytes,
            sent_nbytes=self._sent_nbytes,
        )

    def _too_large(self) -> RequestTooLargeError:
        return RequestTooLargeError(
            f"a request may have {limit_text(self._limit_nbytes)}",
            limit_nbytes=self._limit_nbytes,
        )


def _header(scope: Scope, name: bytes) -> str | None:
    """The value of a header; its last one where it is given twice."""
    found = [value for key, value in scope["headers"] if key == name]
    return found[-1].decode("latin-1") if found else None
