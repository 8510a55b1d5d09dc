"""Messages of gRPC: each comes in its time, and together they take no more memory than they may.

gRPC itself reads every message to its end before anybody is asked, and waits for it for ever. What
is small comes at once; of the others only a few may be on their way at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from ortpkg.errors import InvalidRequestError, LimitExceededError, ServerBusyError
from ortpkg.quantities import time_limit_text
from ortpkg.serving.serving_options import ServingLimits

#: A message that has not come by then is one of few.
_AT_ONCE_S = 0.25
#: How many are looked at for so long at the same time; others wait.
_MOST_AT_ONCE = 32
#: How many of the largest messages may be on their way, and as many again be answered.
_LARGEST_MESSAGES = 8
_RETRY_AFTER_S = 1.0


class Intake:
    """Takes the messages of a server.

    ``limits``: of each.
    """

    def __init__(self, limits: ServingLimits) -> None:
        self._body_s = limits.timeout_s
        self._most_nbytes = _LARGEST_MESSAGES * limits.request_nbytes
        self._at_once = asyncio.Semaphore(_MOST_AT_ONCE)
        self._coming = self._nbytes = 0

    def reading(self, handler: grpc.RpcMethodHandler) -> grpc.RpcMethodHandler:
        """``handler`` of calls with one message, which is read only as it may be.

        Such calls raise ServerBusyError and LimitExceededError, and InvalidRequestError for what
        is no message.
        """

        async def answer(_messages: Any, context: Any) -> Any:
            async with self._held(await self._read(context)) as message:
                try:
                    request = handler.request_deserializer(message)
                except DecodeError as error:
                    raise InvalidRequestError(f"the message is no such request: {error}") from error
                return await handler.unary_unary(request, context)

        return grpc.stream_unary_rpc_method_handler(
            answer, response_serializer=handler.response_serializer
        )

    async def _read(self, context: Any) -> bytes:
        async with self._at_once:
            reading = asyncio.ensure_future(context.read())
            try:
                await asyncio.wait({reading}, timeout=_AT_ONCE_S)
            except BaseException:
                reading.cancel()
                raise
        try:
            if not reading.done():
                await self._wait_for(reading)
            message: Any = await reading
        finally:
            reading.cancel()
        if message is grpc.aio.EOF:
            raise InvalidRequestError("the call has no message")
        return bytes(message)

    async def _wait_for(self, reading: asyncio.Future[Any]) -> None:
        if self._coming >= _LARGEST_MESSAGES:
            raise ServerBusyError(
                f"{_LARGEST_MESSAGES} large messages are on their way already, and no more may be",
                retry_after_s=_RETRY_AFTER_S,
            )
        self._coming += 1
        try:
            await asyncio.wait({reading}, timeout=self._body_s)
        finally:
            self._coming -= 1
        if not reading.done():
            raise LimitExceededError(
                f"the request did not come within {time_limit_text(self._body_s)}", limit="body"
            )

    @asynccontextmanager
    async def _held(self, message: bytes) -> AsyncIterator[bytes]:
        if self._nbytes + len(message) > self._most_nbytes:
            raise ServerBusyError(
                "the requests that are open take all the memory that they may",
                retry_after_s=_RETRY_AFTER_S,
            )
        self._nbytes += len(message)
        try:
            yield message
        finally:
            self._nbytes -= len(message)
