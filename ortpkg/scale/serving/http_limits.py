"""Limits of HTTP requests that are checked before they are read: size, time and token."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ortpkg.foundations.errors import OrtpkgError
from ortpkg.scale.serving.bearer_token import check_bearer_token
from ortpkg.scale.serving.http_exchange import (
    Application,
    Exchange,
    HeldBytes,
    Receive,
    Scope,
    Send,
    header,
)
from ortpkg.scale.serving.refusals import refusal_of
from ortpkg.scale.serving.server_log import log_fault
from ortpkg.scale.serving.serving_options import ServingLimits

#: Paths for load balancers, which have no token.
_OPEN_PATHS = frozenset({"/", "/v2/health/live", "/v2/health/ready"})
#: Limit of all bodies at a time, in multiples of the largest.
_LARGEST_BODIES = 8


class GuardedApplication:
    """Application behind its limits; every exception becomes an answer.

    Args:
        application: Application that answers.
        limits: Limits of requests.
        token: Bearer token that clients must send; None for none.
        logs_requests: True to log every request, not only refused ones.
        on_response: Called with the status of each answer.
        unsent_nbytes: Returns the number of bytes of answers that wait for clients to read them.
    """

    def __init__(
        self,
        application: Application,
        limits: ServingLimits,
        *,
        token: str | None = None,
        logs_requests: bool = False,
        on_response: Callable[[str], None] = lambda _status: None,
        unsent_nbytes: Callable[[], int] = lambda: 0,
    ) -> None:
        self._application = application
        self._on_response = on_response
        self._token = token
        self._logs_requests = logs_requests
        self._held = HeldBytes(
            request_nbytes=limits.request_nbytes,
            most_nbytes=_LARGEST_BODIES * limits.request_nbytes,
            body_s=limits.timeout_s,
            unsent_nbytes=unsent_nbytes,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI request."""
        if scope["type"] != "http":
            return  # web sockets are not supported
        exchange = Exchange(scope, receive, send, self._held)
        try:
            await self._answer(scope, exchange)
        finally:
            exchange.end()
            self._on_response(str(exchange.status))
        is_refused = exchange.status >= 400 and scope["path"] not in _OPEN_PATHS
        if self._logs_requests or is_refused or exchange.is_abandoned:
            exchange.log()

    async def _answer(self, scope: Scope, exchange: Exchange) -> None:
        try:
            self._check_token(scope)
            exchange.check_head()
            exchange.watch()
            await self._application(scope, exchange.receive, exchange.send)
        except asyncio.CancelledError:
            if not exchange.is_abandoned:
                raise
        except OrtpkgError as error:
            refusal = refusal_of(error)
            await exchange.refuse(refusal, drains=refusal.status == 413)
        except Exception as error:  # noqa: BLE001 - nothing may end the server
            if exchange.is_abandoned:
                return  # an error after the client disconnected within its body is not a fault
            log_fault("fault", error, path=scope["path"])
            await exchange.refuse(refusal_of(error))

    def _check_token(self, scope: Scope) -> None:
        if self._token is not None and scope["path"] not in _OPEN_PATHS:
            check_bearer_token(header(scope, b"authorization"), self._token)
