"""Run requests on a bounded number of threads, with a bounded queue, each within its time limit.

The event loop never waits for a run. Several requests may run on one session at the same time,
which sessions support.
"""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from ortpkg.foundations.errors import (
    CancelledError,
    LimitExceededError,
    NotServingError,
    ServerBusyError,
)
from ortpkg.foundations.quantities import time_limit_text
from ortpkg.runtime.pipelines.pipeline_session import OnRound
from ortpkg.runtime.session.options import RunOptions
from ortpkg.scale.serving.batching import Batcher, BatchPlan
from ortpkg.scale.serving.observer import Observer
from ortpkg.scale.serving.protocol_tensors import Array
from ortpkg.scale.serving.served_model import ServedModel
from ortpkg.scale.serving.serving_options import ServingLimits
from ortpkg.scale.serving.streamed_parts import PartsRoom, StreamedParts

ResultT = TypeVar("ResultT")
#: Converts a run's outputs to an answer.
Write = Callable[[dict[str, Array]], ResultT]

#: Time after which to retry at a busy or ending server, in seconds.
_RETRY_AFTER_S = 1.0
#: Limit of unread stream parts, in multiples of the largest request.
_LARGEST_PARTS = 8
#: Time that a run may continue after it was told to end, in seconds.
_GRACE_S = 2.0


class Answering:
    """Threads of a server, with its running and waiting requests.

    Args:
        limits: Limits of requests.

    Attributes:
        observer: Observer of requests and runs.
    """

    def __init__(self, limits: ServingLimits) -> None:
        self.limits = limits
        self.observer = Observer()
        self._threads = ThreadPoolExecutor(limits.concurrency, thread_name_prefix="ortpkg-serving")
        self._open = 0
        self._streamed = PartsRoom(_LARGEST_PARTS * limits.request_nbytes)
        self._runs: dict[int, RunOptions] = {}
        self._batchers: weakref.WeakKeyDictionary[ServedModel, Batcher] = (
            weakref.WeakKeyDictionary()
        )
        self._is_ending = self._is_over = False
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    @property
    def open_requests(self) -> int:
        """Number of requests that run or wait."""
        return self._open

    async def answer(
        self,
        model: ServedModel,
        inputs: Mapping[str, Array],
        output_names: Sequence[str] = (),
        on_round: OnRound | None = None,
    ) -> dict[str, Array]:
        """Return the outputs of one request.

        ``on_round`` is that of :meth:`ServedModel.infer`. See :meth:`answer_written` for the
        errors.
        """
        return await self.answer_written(model, inputs, dict, output_names, on_round)

    async def answer_written(
        self,
        model: ServedModel,
        inputs: Mapping[str, Array],
        write: Write[ResultT],
        output_names: Sequence[str] = (),
        on_round: OnRound | None = None,
    ) -> ResultT:
        """Run one request and return what ``write`` makes of its outputs.

        ``write`` is called on the thread of the run, which takes no further request before that. So
        outputs of at most as many requests as there are threads are in memory. The run ends if the
        client has gone.

        Raises:
            ServerBusyError, NotServingError: The request is not accepted.
            LimitExceededError: Its time is up before it starts.
            Exception: Any error of :meth:`ServedModel.infer` and ``write``.
        """
        received_s = time.perf_counter()
        if model.batch_plan is not None and on_round is None:
            written = await self._answer_joined(
                model, model.batch_plan, inputs, write, output_names
            )
        else:
            written = await self._answer_alone(model, inputs, write, output_names, on_round)
        self.observer.answered(model, time.perf_counter() - received_s)
        return written

    async def _answer_alone(
        self,
        model: ServedModel,
        inputs: Mapping[str, Array],
        write: Write[ResultT],
        output_names: Sequence[str],
        on_round: OnRound | None,
    ) -> ResultT:
        options = self._run_options()
        allowed_s = self.limits.timeout_s
        deadline = time.monotonic() + allowed_s

        def run() -> ResultT:
            options.timeout_s = deadline - time.monotonic()
            self.observer.began(model, allowed_s - options.timeout_s)
            if options.timeout_s <= 0:
                raise _waited_too_long(allowed_s)
            return write(model.infer(inputs, output_names, options, on_round))

        with self._listed(options):
            try:
                return await self.run(run)
            except asyncio.CancelledError:
                options.terminate = True
                raise

    async def _answer_joined(
        self,
        model: ServedModel,
        plan: BatchPlan,
        inputs: Mapping[str, Array],
        write: Write[ResultT],
        output_names: Sequence[str],
    ) -> ResultT:
        """Answer like :meth:`answer_written`, in one run with other waiting requests."""

        waited_for = weakref.ref(model)  # waiting requests keep the model; the batcher must not

        def run(joined: Mapping[str, Array]) -> dict[str, Array]:
            options = self._run_options()
            options.terminate = self._is_over
            if (running := waited_for()) is None:
                raise CancelledError("nobody waits for it any more")
            with self._listed(options):
                return running.infer(joined, None, options)

        def write_some(outputs: Mapping[str, Array]) -> ResultT:
            return write({name: outputs[name] for name in output_names or outputs})

        if model not in self._batchers:
            self._batchers[model] = Batcher(
                run, plan, executor=self._threads, on_run=partial(self._report_joined, waited_for)
            )
        self._begin()
        try:
            async with asyncio.timeout(self.limits.timeout_s):
                return await self._batchers[model].infer(inputs, write_some)
        except TimeoutError:
            raise _waited_too_long(self.limits.timeout_s) from None
        finally:
            self._note_end()

    def _report_joined(
        self, waited_for: weakref.ref[ServedModel], rows: int, waited_s: list[float]
    ) -> None:
        if (model := waited_for()) is not None:
            self.observer.joined(model, rows, waited_s)

    async def stream(
        self, model: ServedModel, inputs: Mapping[str, Array], write: Write[bytes]
    ) -> AsyncIterator[bytes]:
        """Yield what ``write`` makes of each round of a pipeline's loop, then of the other outputs.

        A model without loops gives everything at once. ``write`` is called on the run's thread. The
        run ends when the caller stops asking for more.

        Raises:
            ServerBusyError: Too many parts of streams wait for clients.
            Exception: See :meth:`answer_written`.
        """
        loop = asyncio.get_running_loop()
        parts: asyncio.Queue[bytes] = asyncio.Queue()
        waiting = StreamedParts(self._streamed)

        def write_part(outputs: Mapping[str, Array]) -> bytes:
            part = write(dict(outputs)) if outputs else b""
            waiting.add(len(part))
            return part

        def tell(outputs: Mapping[str, Array]) -> None:
            if part := write_part(outputs):
                loop.call_soon_threadsafe(parts.put_nowait, part)

        def write_rest(outputs: Mapping[str, Array]) -> bytes:
            gathered = model.gathered_outputs
            return write_part({name: outputs[name] for name in outputs if name not in gathered})

        task = loop.create_task(self.answer_written(model, inputs, write_rest, on_round=tell))
        task.add_done_callback(lambda _: parts.put_nowait(b""))
        try:
            while part := await parts.get():
                yield part
                waiting.remove(len(part))
            if rest := await task:
                yield rest
        finally:
            task.cancel()
            waiting.end()

    async def run(self, work: Callable[[], ResultT]) -> ResultT:
        """Run ``work`` on one of the threads and return its result.

        Raises:
            ServerBusyError, NotServingError: The request is not accepted.
        """
        self._begin()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[ResultT] = loop.create_future()
        future = self._threads.submit(work)
        # The loop is woken only once, because each time costs as much as a small model.
        future.add_done_callback(
            lambda done: loop.call_soon_threadsafe(self._set_result, answer, done)
        )
        try:
            return await answer
        finally:
            future.cancel()  # cancels work that has not begun and that nobody waits for

    def _set_result(self, answer: asyncio.Future[ResultT], future: Future[ResultT]) -> None:
        """Pass the result of a thread's work to its waiter, if there still is one."""
        self._note_end()
        if answer.done():
            return
        if future.cancelled():
            answer.cancel()
        elif (error := future.exception()) is not None:
            answer.set_exception(error)
        else:
            answer.set_result(future.result())

    def _begin(self) -> None:
        """Count one more open request.

        Raises:
            ServerBusyError, NotServingError: The request is not accepted.
        """
        if self._is_ending:
            raise NotServingError("the server is about to end", retry_after_s=_RETRY_AFTER_S)
        if self._open >= self.limits.concurrency + self.limits.most_waiting:
            raise ServerBusyError(
                f"{self.limits.most_waiting} requests wait already, and no more may",
                retry_after_s=_RETRY_AFTER_S,
            )
        self._open += 1
        self._is_idle.clear()

    async def drain(self) -> bool:
        """Accept no further requests and wait for the open ones.

        Returns:
            True if they ended in time; otherwise they are told to end, and waited for once more.
        """
        self._is_ending = True
        is_done = await self._wait(self.limits.drain_s)
        if not is_done:
            self.hurry()
            await self._wait(_GRACE_S)
        self._threads.shutdown(wait=False, cancel_futures=True)
        return is_done

    def hurry(self) -> None:
        """Tell all runs to end, including those that start later."""
        self._is_over = True
        for options in list(self._runs.values()):
            options.terminate = True

    async def _wait(self, most_s: float) -> bool:
        try:
            await asyncio.wait_for(self._is_idle.wait(), most_s)
        except TimeoutError:
            return False
        return True

    @contextmanager
    def _listed(self, options: RunOptions) -> Iterator[None]:
        """Register a run while it lasts, so that the server's end finds it."""
        self._runs[id(options)] = options
        try:
            yield
        finally:
            del self._runs[id(options)]

    def _note_end(self) -> None:
        self._open -= 1
        if not self._open:
            self._is_idle.set()

    def _run_options(self) -> RunOptions:
        options = RunOptions()
        options.timeout_s = self.limits.timeout_s
        options.memory_limit_nbytes = self.limits.memory_limit_nbytes
        return options


def _waited_too_long(allowed_s: float) -> LimitExceededError:
    return LimitExceededError(
        f"the request waited for all of its {time_limit_text(allowed_s)}", limit="time"
    )
