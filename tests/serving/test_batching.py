"""Requests that wait together run together, and none suffers by another."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ortpkg.foundations.errors import LimitExceededError, RunError
from ortpkg.scale.serving.batching import (
    Arrays,
    Batcher,
    BatchPlan,
    outcomes_of,
    plan_batches,
)


def _rows(*values: float) -> dict[str, npt.NDArray[Any]]:
    return {"x": np.array(values, np.float32)}


class _Model:
    """Doubles each row; ``gate`` keeps runs from ending; 13 is a row that it cannot take."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.runs: list[list[float]] = []

    def run(self, inputs: Arrays) -> Mapping[str, npt.NDArray[Any]]:
        self.gate.wait(10)
        self.runs.append(inputs["x"].reshape(-1).tolist())
        if np.any(inputs["x"] == 13):
            raise RunError("13 is unlucky")
        return {"y": inputs["x"] * 2}


def _run(model: _Model, plan: BatchPlan, body: Callable[[Batcher], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        with ThreadPoolExecutor(1) as pool:
            return await body(Batcher(model.run, plan, executor=pool))

    return asyncio.run(asyncio.wait_for(main(), 20))


async def _while_one_runs(model: _Model, batcher: Batcher, *requests: Arrays) -> list[Any]:
    """The answers to ``requests``, which all wait while another one runs."""
    model.gate.clear()
    first = asyncio.ensure_future(batcher.infer(_rows(0), dict))
    waiting = [asyncio.ensure_future(batcher.infer(request, dict)) for request in requests]
    while batcher.waiting < len(requests):
        await asyncio.sleep(0)
    model.gate.set()
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    await first
    return answers


def test_what_waits_during_a_run_makes_the_next() -> None:
    model = _Model()

    async def body(batcher: Batcher) -> list[Any]:
        return await _while_one_runs(model, batcher, _rows(1), _rows(2, 3), _rows(4))

    answers = _run(model, BatchPlan(most_rows=8), body)
    assert model.runs == [[0], [1, 2, 3, 4]]
    assert [each["y"].tolist() for each in answers] == [[2], [4, 6], [8]]


def test_a_run_has_no_more_rows_than_planned_but_for_a_request_that_has_more() -> None:
    model = _Model()

    async def body(batcher: Batcher) -> list[Any]:
        return await _while_one_runs(
            model, batcher, _rows(1, 2), _rows(3, 4), _rows(5, 6, 7, 8, 9), _rows(10)
        )

    answers = _run(model, BatchPlan(most_rows=3), body)
    assert model.runs == [[0], [1, 2], [3, 4], [5, 6, 7, 8, 9], [10]]
    assert answers[2]["y"].tolist() == [10, 12, 14, 16, 18]


def test_other_shapes_and_types_are_not_joined() -> None:
    model = _Model()
    others: list[Arrays] = [
        {"x": np.ones((1, 2), np.float32)},
        {"x": np.ones(1, np.float64)},
        {"x": np.ones(1, np.float32), "z": np.ones(1, np.float32)},
        {"x": np.array(3, np.float32)},
        {"x": np.array(3, np.float32)},
        {"x": np.ones(0, np.float32)},
    ]

    async def body(batcher: Batcher) -> list[Any]:
        return await _while_one_runs(model, batcher, _rows(1), *others)

    answers = _run(model, BatchPlan(most_rows=8), body)
    assert len(model.runs) == 1 + 1 + len(others)
    assert [each["y"].shape for each in answers] == [(1,), (1, 2), (1,), (1,), (), (), (0,)]


def test_a_lone_request_waits_for_company_as_long_as_planned() -> None:
    model = _Model()

    async def body(batcher: Batcher) -> None:
        lone = asyncio.ensure_future(batcher.infer(_rows(1), dict))
        await asyncio.sleep(0)
        assert not model.runs
        assert batcher.waiting == 1
        await asyncio.gather(lone, batcher.infer(_rows(2), dict))  # which fills the run
        assert model.runs == [[1, 2]]

    _run(model, BatchPlan(most_rows=2, longest_wait_s=1000), body)
    _run(
        _Model(),
        BatchPlan(most_rows=2, longest_wait_s=0.001),
        lambda alone: alone.infer(_rows(1), dict),
    )


class _TurnedClock(asyncio.SelectorEventLoop):
    """An event loop whose clock is turned on by hand."""

    turned_s = 0.0

    def time(self) -> float:
        """Seconds."""
        return self.turned_s

    async def turn(self, duration_s: float) -> None:
        """Has time pass, and what is due then begin."""
        self.turned_s += duration_s
        for _ in range(5):
            await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("arrivals_s", "runs"),
    [
        ([0, 2, 2], [[0, 1, 2]]),
        ([0, 2, 4], [[0, 1], [2]]),
        ([0, 2, 2, 2, 2, 2], [[0, 1, 2, 3, 4], [5]]),
    ],
    ids=["they keep coming", "a gap", "the first has waited"],
)
def test_while_requests_keep_coming_they_wait_for_each_other(
    arrivals_s: list[float], runs: list[list[float]]
) -> None:
    model = _Model()
    plan = BatchPlan(most_rows=100, longest_wait_s=9, longest_gap_s=3)

    async def main(loop: _TurnedClock) -> None:
        with ThreadPoolExecutor(1) as pool:
            batcher = Batcher(model.run, plan, executor=pool, most_runs=100)
            answers = []
            for number, after_s in enumerate(arrivals_s):
                await loop.turn(after_s)
                answers.append(asyncio.ensure_future(batcher.infer(_rows(number), dict)))
                await loop.turn(0)
            await loop.turn(100)
            await asyncio.gather(*answers)

    with asyncio.Runner(loop_factory=_TurnedClock) as runner:
        loop: Any = runner.get_loop()
        runner.run(main(loop))
    assert model.runs == runs


def test_a_bad_request_spoils_no_other() -> None:
    model = _Model()

    async def body(batcher: Batcher) -> list[Any]:
        return await _while_one_runs(model, batcher, _rows(1), _rows(13), _rows(2))

    one, bad, two = _run(model, BatchPlan(most_rows=8), body)
    assert (one["y"], two["y"]) == ([2], [4])
    assert isinstance(bad, RunError)
    assert model.runs == [[0], [1, 13, 2], [1], [13], [2]]


def test_outputs_without_a_row_for_each_are_not_given_out() -> None:
    sums: list[Any] = outcomes_of(
        lambda inputs: {"y": inputs["x"].sum(keepdims=True)}, [_rows(1, 2), _rows(3, 4)]
    )
    assert [each["y"].tolist() for each in sums] == [[3], [7]]


def test_a_joined_run_over_its_time_answers_all() -> None:
    runs: list[int] = []

    def run(inputs: Arrays) -> Arrays:
        runs.append(len(inputs["x"]))
        raise LimitExceededError("too long", limit="time")

    outcomes = outcomes_of(run, [_rows(1), _rows(2)])
    assert runs == [2]
    assert all(isinstance(each, LimitExceededError) for each in outcomes)


def test_who_gave_up_is_not_run() -> None:
    model = _Model()

    async def body(batcher: Batcher) -> None:
        model.gate.clear()
        first = asyncio.ensure_future(batcher.infer(_rows(0), dict))
        gone, stays = (asyncio.ensure_future(batcher.infer(_rows(n), dict)) for n in (1, 2))
        await asyncio.sleep(0)
        gone.cancel()
        model.gate.set()
        await asyncio.gather(first, stays)
        await batcher.drain()

    _run(model, BatchPlan(most_rows=8), body)
    assert model.runs == [[0], [2]]


def test_who_gives_up_during_a_run_changes_no_other_answer() -> None:
    model = _Model()

    async def body(batcher: Batcher) -> Any:
        model.gate.clear()
        gone, stays = (asyncio.ensure_future(batcher.infer(_rows(n), dict)) for n in (1, 2))
        await asyncio.sleep(0)  # both are there, and fill the run
        assert not batcher.waiting
        gone.cancel()
        model.gate.set()
        answer = await stays
        await batcher.drain()
        return answer, gone.cancelled()

    answer, was_cancelled = _run(model, BatchPlan(most_rows=2, longest_wait_s=1000), body)
    assert (answer["y"].tolist(), was_cancelled) == ([4], True)
    assert model.runs == [[1, 2]]


def test_requests_after_the_end_of_the_executor_are_cancelled() -> None:
    pool = ThreadPoolExecutor(1)
    pool.shutdown()

    async def main() -> list[Any]:
        batcher = Batcher(_Model().run, BatchPlan(most_rows=8), executor=pool)
        requests = [batcher.infer(_rows(n), dict) for n in (1, 2)]
        answers = await asyncio.gather(*requests, return_exceptions=True)
        await batcher.drain()
        return answers

    answers = asyncio.run(asyncio.wait_for(main(), 20))
    assert [type(answer) for answer in answers] == [asyncio.CancelledError] * 2


def test_each_answer_is_written_on_the_thread_of_the_run_and_fails_alone() -> None:
    model = _Model()
    writers: list[threading.Thread] = []

    def write(outputs: Arrays) -> bytes:
        writers.append(threading.current_thread())
        if outputs["y"].size == 3:
            raise RunError("three cannot be written")
        return outputs["y"].tobytes()

    async def body(batcher: Batcher) -> list[Any]:
        requests = [batcher.infer(_rows(*range(size)), write) for size in (2, 3, 1)]
        return await asyncio.gather(*requests, return_exceptions=True)

    first, second, third = _run(model, BatchPlan(most_rows=6, longest_wait_s=1000), body)
    assert model.runs == [[0, 1, 0, 1, 2, 0]]
    assert (first, third) == (_rows(0, 2)["x"].tobytes(), _rows(0)["x"].tobytes())
    assert isinstance(second, RunError)
    assert threading.main_thread() not in writers


def test_draining_waits_for_what_came() -> None:
    model = _Model()

    async def body(batcher: Batcher) -> None:
        answers = [asyncio.ensure_future(batcher.infer(_rows(n), dict)) for n in range(5)]
        await asyncio.sleep(0)
        await batcher.drain()
        assert all(each.done() for each in answers)

    _run(model, BatchPlan(most_rows=2, longest_wait_s=0.001), body)


def test_draining_waits_for_what_comes_meanwhile() -> None:
    model = _Model()

    async def body(batcher: Batcher) -> None:
        model.gate.clear()
        first = asyncio.ensure_future(batcher.infer(_rows(1), dict))
        await asyncio.sleep(0)
        draining = asyncio.ensure_future(batcher.drain())
        await asyncio.sleep(0)
        second = asyncio.ensure_future(batcher.infer(_rows(2), dict))
        await asyncio.sleep(0)
        model.gate.set()
        await draining
        assert first.done()
        assert second.done()

    _run(model, BatchPlan(most_rows=2), body)


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=12),
    st.integers(1, 8),
)
def test_every_request_gets_its_own_rows(sizes: list[int], most_rows: int) -> None:
    requests = [_rows(*range(100 * n, 100 * n + size)) for n, size in enumerate(sizes)]

    async def body(batcher: Batcher) -> list[Any]:
        return list(await asyncio.gather(*(batcher.infer(request, dict) for request in requests)))

    answers = _run(_Model(), BatchPlan(most_rows=most_rows), body)
    for request, answer in zip(requests, answers, strict=True):
        assert np.array_equal(answer["y"], request["x"] * 2)


def _plan(most_rows: int, wait_s: float, gap_s: float) -> BatchPlan:
    return BatchPlan(most_rows=most_rows, longest_wait_s=wait_s, longest_gap_s=gap_s)


@pytest.mark.parametrize(
    ("times_s", "bound_s", "expected"),
    [
        ({1: 0.001, 8: 0.002, 32: 0.006}, 0.020, _plan(32, 0.008, 0.006)),
        ({1: 0.001, 8: 0.002, 32: 0.009}, 0.020, _plan(8, 0.016, 0.002)),
        ({1: 0.001, 8: 0.002, 32: 0.006}, 0.005, _plan(8, 0.001, 0.002)),
        ({1: 0.0001, 8: 0.0002}, 0.020, _plan(8, 0.0196, 0.002)),
        ({1: 0.001, 8: 0.010}, 0.020, BatchPlan(most_rows=1)),
        ({1: 0.001}, 0.0015, None),
        ({}, 1.0, None),
    ],
)
def test_plans_by_what_was_measured(
    times_s: dict[int, float], bound_s: float, expected: BatchPlan | None
) -> None:
    plan = plan_batches(times_s, bound_s)
    assert (plan is None) == (expected is None)
    if plan is not None and expected is not None:
        assert plan.most_rows == expected.most_rows
        assert plan.longest_wait_s == pytest.approx(expected.longest_wait_s)
        assert plan.longest_gap_s == pytest.approx(expected.longest_gap_s)
