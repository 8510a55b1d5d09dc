"""One HTTP request and its answer.

Requests are counted, limited and timed, and cancelled if the client disconnects.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ortpkg.foundations.errors import (
    InvalidRequestError,
    LimitExceededError,
    RequestTooLargeError,
    ServerBusyError,
)
from ortpkg.foundations.quantities import limit_text, time_limit_text
from ortpkg.scale.serving.refusals import Refusal, refusal_of
from ortpkg.scale.serving.server_log import log_event, log_warning

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

#: Status in the log (from nginx) for requests whose client has gone; nobody receives it.
CLIENT_GONE = 499
#: Time after which a request is watched for a disconnected client, in seconds.
_WATCH_AFTER_S = 0.1
_RETRY_AFTER_S = 1.0
#: Size and time up to which a refused body is still read. Otherwise a client that is sending would
#: see a connection reset instead of the reason.
_MOST_DRAINED_NBYTES = 64 << 20
_DRAIN_S = 2.0


@dataclass(slots=True, kw_only=True)
class HeldBytes:
    """Counter of the bytes of request bodies and answers that a server holds, with its limits.

    Attributes:
        request_nbytes: Limit of one body.
        most_nbytes: Limit of all bodies together.
        body_s: Time in which a body must arrive, in seconds.
        nbytes: Bytes of all bodies now.
        answers_nbytes: Bytes of answers that have begun and were not yet passed to their
            connections.
        unsent_nbytes: Returns the number of bytes of answers that wait for clients to read them.
    """

    request_nbytes: int
    most_nbytes: int
    body_s: float
    nbytes: int = 0
    answers_nbytes: int = 0
    unsent_nbytes: Callable[[], int] = lambda: 0


class Exchange:
    """Request that is read through :meth:`receive` and answered through :meth:`send`.

    Attributes:
        is_begun: True if the answer has begun.
        is_abandoned: True if the client went before it had its answer.
        status: Status of the answer.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, held: HeldBytes) -> None:
        self._scope, self._receive, self._send, self._held = scope, receive, send, held
        self._start = time.monotonic()
        length = header(scope, b"content-length")
        self._has_body = length not in (None, "0") or header(scope, b"transfer-encoding")
        self._is_complete = not self._has_body
        self._length = length or ""
        self._received_nbytes = self._sent_nbytes = self._answer_nbytes = 0
        self._watch: asyncio.TimerHandle | asyncio.Task[None] | None = None
        self._task: asyncio.Task[Any] | None = None
        self._unsized_start: Message | None = None
        self._is_replaced = self._is_unsized = False
        self.is_begun = self.is_abandoned = False
        self.status = 500

    def check_head(self) -> None:
        """Raise if the header already shows that the body is not acceptable."""
        if header(self._scope, b"content-encoding") not in (None, "", "identity"):
            raise InvalidRequestError("bodies are taken as they are, without Content-Encoding")
        if self._length.isdigit() and int(self._length[:20]) > self._held.request_nbytes:
            raise self._too_large()

    async def receive(self) -> Message:
        """Return the next part of the body; raise if it comes too slowly or is too large."""
        if self._is_complete:
            return await self._receive()
        try:
            async with asyncio.timeout(self._start + self._held.body_s - time.monotonic()):
                message = await self._receive()
        except TimeoutError:
            raise LimitExceededError(
                f"the request did not come within {time_limit_text(self._held.body_s)}",
                limit="body",
            ) from None
        if message["type"] == "http.request":
            self._count(len(message.get("body", b"")))
            self._is_complete = not message.get("more_body", False)
        else:
            self.is_abandoned = True
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the answer; an answer that would exceed the memory limit is refused.

        The refusal is sent instead of raised, because for Starlette the answer has begun by then.
        For an answer in parts without a length, the first part decides; a later one over the limit
        ends the connection.
        """
        if self._is_replaced:
            return
        if message["type"] == "http.response.start":
            length = header(message, b"content-length")
            if length is None and message["status"] < 400:
                self._unsized_start = message  # its first part tells its size
            else:
                await self._begin(message, int(length or 0))
            return
        nbytes = len(message.get("body", b""))
        if self._unsized_start is not None:
            if not await self._begin(self._unsized_start, nbytes):
                return
        elif self._is_unsized and not self._take_room(nbytes):
            await self._cut()
        self._sent_nbytes += nbytes
        await self._send(message)
        if self._is_unsized:  # from now on its connection counts the part
            self._give_room()

    async def _begin(self, start: Message, nbytes: int) -> bool:
        """Send the head of an answer and return True, or send a refusal and return False.

        Args:
            start: The head.
            nbytes: Size of the body.
        """
        self._is_unsized, self._unsized_start = self._unsized_start is start, None
        if start["status"] < 400 and not self._take_room(nbytes):
            busy = ServerBusyError(
                "clients have not read as many bytes of answers as may wait for them",
                retry_after_s=_RETRY_AFTER_S,
            )
            await self.refuse(refusal_of(busy))
            self._is_replaced = True
            return False
        self.is_begun = True
        self.status = start["status"]
        if not self._is_complete:  # the rest of the body is not read
            start = {**start, "headers": [*start["headers"], (b"connection", b"close")]}
        await self._send(start)
        return True

    def _take_room(self, nbytes: int) -> bool:
        """Count bytes to send; return False, uncounted, if too many already wait for clients."""
        waiting_nbytes = self._held.unsent_nbytes() + self._held.answers_nbytes
        if waiting_nbytes and waiting_nbytes + nbytes > self._held.most_nbytes:
            return False
        self._answer_nbytes += nbytes
        self._held.answers_nbytes += nbytes
        return True

    async def _cut(self) -> None:
        """Close the connection of an answer that has begun."""
        log_warning("unread", clients=1, limit_nbytes=self._held.most_nbytes)
        assert self._task is not None, "it is watched"
        self.is_abandoned = True
        self._task.cancel()
        await asyncio.get_running_loop().create_future()  # cancelled together with the task

    def _give_room(self) -> None:
        self._held.answers_nbytes -= self._answer_nbytes
        self._answer_nbytes = 0

    async def _drain(self) -> None:
        """Read and drop the body for a while, so that a client that is sending gets its answer."""
        drained_nbytes = 0
        if self._is_complete or header(self._scope, b"expect") is not None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_S):
                while drained_nbytes < _MOST_DRAINED_NBYTES:
                    message = await self._receive()
                    drained_nbytes += len(message.get("body", b""))
                    if message["type"] != "http.request" or not message.get("more_body", False):
                        self._is_complete = message["type"] == "http.request"
                        return

    async def refuse(self, refusal: Refusal, *, drains: bool = True) -> None:
        """Answer with the reason of a refusal, unless an answer has begun.

        ``drains`` says whether a body that is still arriving is read for a while first.
        """
        if self.is_begun:
            return
        is_cut = not self._is_complete
        if drains:
            await self._drain()
        body = json.dumps({"error": refusal.reason}).encode()
        headers = {
            "content-type": "application/json",
            "content-length": str(len(body)),
            **refusal.headers,
        }
        if is_cut and self._is_complete:
            headers["connection"] = "close"
        await self.send(
            {
                "type": "http.response.start",
                "status": refusal.status,
                "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            }
        )
        await self.send({"type": "http.response.body", "body": body})

    def watch(self) -> None:
        """Cancel the task that calls this if the client disconnects from now on."""
        task = self._task = asyncio.current_task()
        assert task is not None, "a request is answered in a task"
        self._watch = asyncio.get_running_loop().call_later(_WATCH_AFTER_S, self._begin_watch, task)

    def end(self) -> None:
        """Stop counting and watching the request."""
        if self._watch is not None:
            self._watch.cancel()
        self._held.nbytes -= self._received_nbytes
        self._give_room()

    def log(self) -> None:
        """Log the result of the request."""
        log_event(
            "request",
            protocol="http",
            method=self._scope["method"],
            path=self._scope["path"],
            status=CLIENT_GONE if self.is_abandoned else self.status,
            duration_ms=round((time.monotonic() - self._start) * 1e3, 3),
            received_nbytes=self._received_nbytes,
            sent_nbytes=self._sent_nbytes,
        )

    def _count(self, nbytes: int) -> None:
        self._received_nbytes += nbytes
        self._held.nbytes += nbytes
        if self._received_nbytes > self._held.request_nbytes:
            raise self._too_large()
        if self._held.nbytes > self._held.most_nbytes:
            raise ServerBusyError(
                "the requests that are open take all the memory that they may",
                retry_after_s=_RETRY_AFTER_S,
            )

    def _begin_watch(self, task: asyncio.Task[Any]) -> None:
        if not self._is_complete:  # while it is being read, its reader notices a disconnect
            self._watch = asyncio.get_running_loop().call_later(
                _WATCH_AFTER_S, self._begin_watch, task
            )
            return
        self._watch = asyncio.create_task(self._cancel_where_gone(task))

    async def _cancel_where_gone(self, task: asyncio.Task[Any]) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if not task.done():
            self.is_abandoned = True
            task.cancel()

    def _too_large(self) -> RequestTooLargeError:
        return RequestTooLargeError(
            f"a request may have {limit_text(self._held.request_nbytes)}",
            limit_nbytes=self._held.request_nbytes,
        )


def header(scope: Scope, name: bytes) -> str | None:
    """Return the value of a header of a request or an answer; the last if it is repeated."""
    values = [value for key, value in scope["headers"] if key == name]
    return values[-1].decode("latin-1") if values else None
