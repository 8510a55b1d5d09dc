"""Runs of a server: as many at a time as may, others wait or come back, each ends in its time."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import numpy as np
import pytest

from ortpkg.foundations.errors import (
    CancelledError,
    LimitExceededError,
    NotServingError,
    ServerBusyError,
)
from ortpkg.scale.serving.answering import Answering
from ortpkg.scale.serving.served_model import ServedModel
from ortpkg.scale.serving.serving_options import ServingLimits
from tests.serving.test_served_model import Adder


class Slow(Adder):
    """Runs until it is let go, or told to end."""

    def __init__(self) -> None:
        self.begun, self.go = threading.Semaphore(0), threading.Event()
        self.is_over = False

    def end(self) -> None:
        """Let go of runs and of who waits for one to begin, for a test that ends, or fails."""
        self.is_over = True
        self.go.set()
        self.begun.release(_MOST_WAITING)

    def run(self, names: Any, feed: Any, options: Any = None) -> list[Any]:
        """Runs."""
        self.begun.release()
        while not self.go.wait(0.005):
            if options.terminate:
                raise CancelledError("told to end")
        return super().run(names, feed, options)


#: Threads of one test that wait for a run to begin, at most.
_MOST_WAITING = 64
FEED = {"a": np.array([1.0], np.float32), "b": np.array([2.0], np.float32)}
Test = Callable[[Answering, Slow, ServedModel], Coroutine[Any, Any, None]]


def with_answering(test: Test, **limits: Any) -> None:
    async def run() -> None:
        session = Slow()
        answering = Answering(
            ServingLimits(**{"concurrency": 1, "most_waiting": 1, "drain_s": 0.05, **limits})
        )
        try:
            await asyncio.wait_for(
                test(answering, session, ServedModel(name="m", version="1", session=session)), 60
            )
        finally:
            session.end()
            await answering.drain()

    asyncio.run(run())


async def begun(session: Slow) -> None:
    """Wait for a run to begin.

    In a thread, which the event loop's end waits for: ``end`` lets go of it.
    """
    await asyncio.to_thread(session.begun.acquire)
    assert not session.is_over, "no run began"


def test_who_would_wait_behind_too_many_is_told_to_come_back() -> None:
    async def test(answering: Answering, session: Slow, model: ServedModel) -> None:
        first = asyncio.create_task(answering.answer(model, FEED, ["sum"]))
        await begun(session)
        second = asyncio.create_task(answering.answer(model, FEED, ["difference"]))
        await asyncio.sleep(0)
        with pytest.raises(ServerBusyError, match="1 requests wait already") as busy:
            await answering.answer(model, FEED, ["sum"])
        assert busy.value.retry_after_s > 0
        session.go.set()
        assert (await first)["sum"].tolist() == [3]
        assert (await second)["difference"].tolist() == [-1]
        assert answering.open_requests == 0

    with_answering(test)


def test_waiting_counts_as_time() -> None:
    async def test(answering: Answering, session: Slow, model: ServedModel) -> None:
        first = asyncio.create_task(answering.answer(model, FEED, ["sum"]))
        await begun(session)
        second = asyncio.create_task(answering.answer(model, FEED, ["sum"]))
        await asyncio.sleep(0.1)
        session.go.set()
        await first
        with pytest.raises(LimitExceededError, match="waited for all of its 50 ms") as late:
            await second
        assert late.value.limit == "time"

    with_answering(test, timeout_s=0.05)


def test_a_run_ends_where_nobody_waits_for_it_any_more() -> None:
    async def test(answering: Answering, session: Slow, model: ServedModel) -> None:
        task = asyncio.create_task(answering.answer(model, FEED, ["sum"]))
        await begun(session)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while answering.open_requests:
            await asyncio.sleep(0.005)

    with_answering(test)


def test_what_nobody_waits_for_any_more_leaves_the_queue_before_it_runs() -> None:
    async def test(answering: Answering, session: Slow, model: ServedModel) -> None:
        first = asyncio.create_task(answering.answer(model, FEED, ["sum"]))
        await begun(session)
        second = asyncio.create_task(answering.answer(model, FEED, ["sum"]))
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        third = asyncio.create_task(answering.answer(model, FEED, ["sum"]))
        session.go.set()
        await asyncio.gather(first, third)
        assert session.begun.acquire(timeout=30), "that of the third"
        assert not session.begun.acquire(blocking=False)
        assert answering.open_requests == 0

    with_answering(test)


def test_no_further_run_begins_before_an_answer_is_written() -> None:
    """Outputs of runs that have ended do not pile up before whoever writes them."""

    async def test(answering: Answering, session: Slow, model: ServedModel) -> None:
        may_write = threading.Event()
        session.go.set()

        def write(outputs: Mapping[str, Any]) -> bytes:
            assert may_write.wait(5)
            return bytes(outputs["sum"].data)

        first = asyncio.create_task(answering.answer_written(model, FEED, write, ["sum"]))
        await begun(session)
        second = asyncio.create_task(answering.answer_written(model, FEED, write, ["sum"]))
        await asyncio.sleep(0.1)
        assert not session.begun.acquire(blocking=False)
        may_write.set()
        assert await first == await second == np.array([3], np.float32).tobytes()

    with_answering(test)


def test_a_request_wakes_the_event_loop_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(answering: Answering, session: Slow, model: ServedModel) -> None:
        loop = asyncio.get_running_loop()
        wake, woken = loop.call_soon_threadsafe, []

        def counted(*arguments: Any) -> Any:
            woken.append(arguments)
            return wake(*arguments)

        monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
        session.go.set()
        for _ in range(3):
            await answering.answer(model, FEED, ["sum"])
        assert len(woken) == 3

    with_answering(test)


def text_of(outputs: Mapping[str, Any]) -> bytes:
    return json.dumps({name: array.tolist() for name, array in outputs.items()}).encode()


def test_parts_of_streams_that_nobody_takes_are_bounded_together() -> None:
    async def test(answering: Answering, session: Slow, model: ServedModel) -> None:
        session.go.set()
        streams = [answering.stream(model, FEED, lambda _: b"x" * 40) for _ in range(3)]
        first, second, third = [await anext(streams[0]), await anext(streams[1]), streams[2]]
        assert first == second == b"x" * 40
        with pytest.raises(ServerBusyError, match="have not read as many bytes of streamed"):
            await anext(third)
        await streams[0].aclose()  # type: ignore[attr-defined]
        assert await anext(answering.stream(model, FEED, lambda _: b"y" * 40)) == b"y" * 40

    with_answering(test, request_nbytes=10)


def test_a_stream_that_nobody_reads_any_more_ends_its_run() -> None:
    async def test(answering: Answering, session: Slow, model: ServedModel) -> None:
        parts = answering.stream(model, FEED, text_of)
        first = asyncio.ensure_future(anext(parts))
        await begun(session)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        while answering.open_requests:
            await asyncio.sleep(0.005)

    with_answering(test)


def test_a_stream_of_a_model_without_loops_has_everything_at_once() -> None:
    async def test(answering: Answering, session: Slow, model: ServedModel) -> None:
        session.go.set()
        (part,) = [part async for part in answering.stream(model, FEED, text_of)]
        assert json.loads(part) == {"sum": [3], "difference": [-1]}

    with_answering(test)


def test_an_end_waits_for_what_runs_and_takes_nothing_new() -> None:
    async def test(answering: Answering, session: Slow, model: ServedModel) -> None:
        task = asyncio.create_task(answering.answer(model, FEED, ["sum"]))
        await begun(session)
        drained = asyncio.create_task(answering.drain())
        await asyncio.sleep(0)
        with pytest.raises(NotServingError, match="about to end"):
            await answering.answer(model, FEED, ["sum"])
        session.go.set()
        assert await drained
        assert (await task)["sum"].tolist() == [3]

    with_answering(test, drain_s=30)


def test_an_end_tells_runs_that_take_too_long_to_end() -> None:
    async def test(answering: Answering, session: Slow, model: ServedModel) -> None:
        task = asyncio.create_task(answering.answer(model, FEED, ["sum"]))
        await begun(session)
        assert not await answering.drain()
        with pytest.raises(CancelledError):
            await task

    with_answering(test)


def test_a_test_that_fails_leaves_no_thread_that_waits() -> None:
    async def test(_answering: Answering, session: Slow, _model: ServedModel) -> None:
        waiting = asyncio.create_task(begun(session))  # for a run that nobody begins
        await asyncio.sleep(0)
        waiting.cancel()
        raise ArithmeticError("the test fails")

    with pytest.raises(ArithmeticError, match="the test fails"):
        with_answering(test)
