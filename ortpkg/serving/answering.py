"""Runs requests: on a bounded number of threads, as many waiting as may, each within its time.

The event loop never waits for a run. Several requests can go to one session at the same time,
which sessions are made for.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ortpkg.errors import LimitExceededError, NotServingError, ServerBusyError
from ortpkg.quantities import time_limit_text
from ortpkg.serving.protocol_tensors import Array
from ortpkg.serving.served_model import ServedModel
from ortpkg.serving.serving_options import ServingLimits
from ortpkg.session.options import RunOptions

ResultT = TypeVar("ResultT")

#: When to come back to a server that is busy, or about to end.
_RETRY_AFTER_S = 1.0
#: How long a run that is told to end may go on.
_GRACE_S = 2.0


class Answering:
    """The threads of a server, and the requests that run or wait.

    ``limits``: how many may.
    """

    def __init__(self, limits: ServingLimits) -> None:
        self.limits = limits
        self._threads = ThreadPoolExecutor(limits.concurrency, thread_name_prefix="ortpkg-serving")
        self._open = 0
        self._runs: dict[int, RunOptions] = {}
        self._is_ending = False
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    @property
    def open_requests(self) -> int:
        """How many run or wait."""
        return self._open

    async def answer(
        self,
        model: ServedModel,
        inputs: Mapping[str, Array],
        output_names: Sequence[str],
        timeout_s: float | None = None,
    ) -> dict[str, Array]:
        """The outputs of one request.

        ``timeout_s``: what the client waits for, where that is less than the server's limit.

        Raises ServerBusyError, NotServingError, LimitExceededError where its time is up before it
        begins, and as :meth:`ServedModel.infer`. Where the client has gone, the run ends.
        """
        options = self._run_options(timeout_s)
        allowed_s = options.timeout_s or self.limits.timeout_s
        deadline = time.monotonic() + allowed_s

        def run() -> dict[str, Array]:
            options.timeout_s = deadline - time.monotonic()
            if options.timeout_s <= 0:
                raise LimitExceededError(
                    f"the request waited for all of its {time_limit_text(allowed_s)}", limit="time"
                )
            return model.infer(inputs, output_names, options)

        self._runs[id(options)] = options
        try:
            return await self.run(run)
        except asyncio.CancelledError:
            options.terminate = True
            raise
        finally:
            del self._runs[id(options)]

    async def run(self, work: Callable[[], ResultT]) -> ResultT:
        """``work()`` on one of the threads. Raises ServerBusyError, NotServingError."""
        if self._is_ending:
            raise NotServingError("the server is about to end", retry_after_s=_RETRY_AFTER_S)
        if self._open >= self.limits.concurrency + self.limits.most_waiting:
            raise ServerBusyError(
                f"{self.limits.most_waiting} requests wait already, and no more may",
                retry_after_s=_RETRY_AFTER_S,
            )
        loop = asyncio.get_running_loop()
        future = self._threads.submit(work)
        self._open += 1
        self._is_idle.clear()
        future.add_done_callback(lambda _: loop.call_soon_threadsafe(self._note_end))
        return await asyncio.wrap_future(future)

    async def drain(self) -> bool:
        """Takes no further requests, and waits for those that are open.

        Returns whether they ended within their time; others are told to, and waited for once more.
        """
        self._is_ending = True
        is_done = await self._wait(self.limits.drain_s)
        if not is_done:
            self.hurry()
            await self._wait(_GRACE_S)
        self._threads.shutdown(wait=False, cancel_futures=True)
        return is_done

    def hurry(self) -> None:
        """Tells every run to end."""
        for options in self._runs.values():
            options.terminate = True

    async def _wait(self, most_s: float) -> bool:
        try:
            await asyncio.wait_for(self._is_idle.wait(), most_s)
        except TimeoutError:
            return False
        return True

    def _note_end(self) -> None:
        self._open -= 1
        if not self._open:
            self._is_idle.set()

    def _run_options(self, timeout_s: float | None) -> RunOptions:
        options = RunOptions()
        options.timeout_s = min(
            self.limits.timeout_s, self.limits.timeout_s if timeout_s is None else timeout_s
        )
        options.memory_limit_nbytes = self.limits.memory_limit_nbytes
        return options
