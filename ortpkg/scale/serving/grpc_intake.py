"""Reading of gRPC messages with limits on their time and their memory together.

gRPC itself reads every message to its end before anything can refuse it, and waits for it for ever.
Small messages arrive at once; of the others only a few may be on their way at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc

from ortpkg.foundations.errors import (
    InvalidRequestError,
    LimitExceededError,
    OrtpkgError,
    ServerBusyError,
)
from ortpkg.foundations.quantities import time_limit_text
from ortpkg.scale.serving.message_size import verify_message_size
from ortpkg.scale.serving.serving_options import ServingLimits

#: Time after which a message counts as slow, in seconds.
_AT_ONCE_S = 0.25
#: Most slow messages on their way, and limit of held messages in multiples of the largest.
_LARGEST_MESSAGES = 8
#: Most new messages at a time, and their bytes together; further ones wait. ``_LARGEST_MESSAGES``
#: of any size are always allowed.
_MOST_AT_ONCE, _AT_ONCE_NBYTES = 32, 128 << 20
_RETRY_AFTER_S = 1.0


class Intake:
    """Reader of a server's messages.

    Args:
        limits: Limits of each message.
    """

    def __init__(self, limits: ServingLimits) -> None:
        at_once = min(
            _MOST_AT_ONCE, max(_LARGEST_MESSAGES, _AT_ONCE_NBYTES // limits.request_nbytes)
        )
        self._slots = _Slots(at_once, limits.timeout_s)
        self._most_nbytes = _LARGEST_MESSAGES * limits.request_nbytes
        self._message_nbytes = limits.request_nbytes
        self._nbytes = 0

    async def answer(
        self, method: Callable[[bytes], Awaitable[bytes]], context: Any, *, is_inference: bool
    ) -> bytes:
        """Return the answer of ``method`` to a call's one message, which is read within the limits.

        Args:
            method: Returns the bytes of the answer to a message.
            context: Context of the call.
            is_inference: True if the message has tensors.
        """
        with self._held(await self._read(context)) as message:
            verify_message_size(message, self._message_nbytes, is_inference=is_inference)
            return await method(message)

    async def _read(self, context: Any) -> bytes:
        await self._slots.at_once.acquire()
        arrival = _Arrival(self._slots)
        try:
            async with arrival.limit:
                message: Any = await context.read()
        except TimeoutError:
            assert arrival.refusal is not None, "nothing else ends it"
            raise arrival.refusal from None
        finally:
            arrival.end()
        if message is grpc.aio.EOF:
            raise InvalidRequestError("the call has no message")
        return bytes(message)

    @contextmanager
    def _held(self, message: bytes) -> Iterator[bytes]:
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


class _Slots:
    """Slots for messages that are on their way.

    Attributes:
        at_once: Slots for new messages.
        slow: Number of slow messages now.
        body_s: Time limit of slow messages, in seconds.
    """

    def __init__(self, at_once: int, body_s: float) -> None:
        self.at_once = asyncio.Semaphore(at_once)
        self.slow = 0
        self.body_s = body_s


class _Arrival:
    """Message on its way, with a slot for new messages at first.

    It is read by the task of its call, because a task of its own costs as much as a small model's
    run.

    Attributes:
        limit: Timeout around the reading.
        refusal: Reason if it is ended early.
    """

    def __init__(self, slots: _Slots) -> None:
        self._slots = slots
        self._is_slow = False
        self.limit = asyncio.timeout(None)
        self.refusal: OrtpkgError | None = None
        self._alarm = asyncio.get_running_loop().call_later(_AT_ONCE_S, self._become_slow)

    def end(self) -> None:
        """Release its slot."""
        self._alarm.cancel()
        if self._is_slow:
            self._slots.slow -= 1
        else:
            self._slots.at_once.release()

    def _become_slow(self) -> None:
        if self._slots.slow >= _LARGEST_MESSAGES:
            self._refuse(
                ServerBusyError(
                    f"{_LARGEST_MESSAGES} large messages are on their way already, and no more may"
                    " be",
                    retry_after_s=_RETRY_AFTER_S,
                )
            )
            return
        self._slots.at_once.release()
        self._slots.slow += 1
        self._is_slow = True
        body_s = self._slots.body_s
        late = LimitExceededError(
            f"the request did not come within {time_limit_text(body_s)}", limit="body"
        )
        self._alarm = asyncio.get_running_loop().call_later(body_s, self._refuse, late)

    def _refuse(self, refusal: OrtpkgError) -> None:
        self.refusal = refusal
        self.limit.reschedule(asyncio.get_running_loop().time())
