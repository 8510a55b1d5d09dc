"""Dynamic batching: one run for requests that wait at the same time.

Their inputs are joined along the first dimension.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ortpkg.foundations.errors import LimitExceededError, RunError, quoted

Arrays = Mapping[str, npt.NDArray[Any]]
#: Kind of inputs that can be joined: names, element types, and shapes without the first dimension.
_Kind = tuple[object, ...]
_Result = TypeVar("_Result")
#: Share of the latency bound that a lone request may always wait for others.
_LEAST_GAP = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """Options of the joining of requests.

    Attributes:
        most_rows: Most rows of a run; a request with more runs alone.
        longest_wait_s: Longest wait for others although a run could start; 0 for no wait.
        longest_gap_s: Time without a further request after which nothing waits any more.
    """

    most_rows: int
    longest_wait_s: float = 0.0
    longest_gap_s: float = math.inf


def plan_batches(times_s: Mapping[int, float], bound_s: float) -> BatchPlan | None:
    """Return the plan with the highest rate whose requests are answered within ``bound_s``.

    A request may arrive just after a run has started: it waits for the end of that run and then for
    its own, so two runs must fit into the bound. The rest of the bound may be waited while requests
    keep arriving. A lone request waits at most for the duration of a run, or a tenth of the bound,
    because a server may need longer to read a request than to run it.

    Args:
        times_s: Measured seconds of a run by number of rows.
        bound_s: Longest time from a request to its answer, in seconds.

    Returns:
        The plan, or None if not even the smallest measured run fits twice.
    """
    fitting = {rows: time_s for rows, time_s in times_s.items() if 2 * time_s <= bound_s}
    if not fitting:
        return None
    rows = max(fitting, key=lambda count: (count / max(fitting[count], 1e-9), count))
    if rows == 1:
        return BatchPlan(most_rows=1)
    return BatchPlan(
        most_rows=rows,
        longest_wait_s=bound_s - 2 * fitting[rows],
        longest_gap_s=max(fitting[rows], _LEAST_GAP * bound_s),
    )


@dataclass(slots=True, eq=False)
class _Request:
    inputs: Arrays
    rows: int
    write: Callable[[Arrays], Any]
    answer: asyncio.Future[Any]
    came_s: float


@dataclass(slots=True)
class _Queue:
    """Requests of one kind, in order of arrival."""

    requests: deque[_Request] = field(default_factory=deque)
    rows: int = 0

    def take(self, most_rows: int) -> list[_Request]:
        """Remove and return the first requests that fit into a run, at least one."""
        requests_to_run: list[_Request] = []
        rows = 0
        while self.requests and (not requests_to_run or rows + self.requests[0].rows <= most_rows):
            request = self.requests.popleft()
            self.rows -= request.rows
            if not request.answer.done():  # skips requests that were cancelled
                requests_to_run.append(request)
                rows += request.rows
        return requests_to_run


class Batcher:
    """Runner of requests, joined with waiting others of the same kind.

    A batcher belongs to one event loop, which never waits for a run. If a joined run fails, each of
    its requests runs alone, so that one bad request does not fail the others.

    Args:
        run: Function that runs inputs once. Its outputs have as many rows as the inputs, in the
            same order.
        plan: How to join requests.
        executor: Executor of the runs.
        most_runs: Most runs at the same time; not more than ``executor`` has threads.
        on_run: Called with the number of rows of each run, and the wait of each of its requests.
    """

    def __init__(
        self,
        run: Callable[[Arrays], Arrays],
        plan: BatchPlan,
        *,
        executor: Executor,
        most_runs: int = 1,
        on_run: Callable[[int, list[float]], None] = lambda _rows, _waited_s: None,
    ) -> None:
        self._run = run
        self._plan = plan
        self._executor = executor
        self._free = most_runs
        self._on_run = on_run
        self._queues: dict[_Kind, _Queue] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._alarm: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        """Number of requests that have not started to run."""
        return sum(len(queue.requests) for queue in self._queues.values())

    async def infer(self, inputs: Arrays, write: Callable[[Arrays], _Result]) -> _Result:
        """Return what ``write`` makes of the outputs for ``inputs``, as if they had run alone.

        ``write`` is called on the executor. Inputs that are scalars, differ in their first
        dimension, or have no row, are not joined.

        Raises:
            Exception: Any error of ``run`` and ``write``.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[_Result] = loop.create_future()
        request = _Request(inputs, _rows_of(inputs), write, answer, loop.time())
        queue = self._queues.setdefault(_kind_of(request), _Queue())
        queue.requests.append(request)
        queue.rows += request.rows
        self._start_due_runs()
        return await answer

    async def drain(self) -> None:
        """Wait until all requests are answered."""
        while self._running or self._queues:
            waiting = [
                request.answer for queue in self._queues.values() for request in queue.requests
            ]
            await asyncio.gather(*self._running, *waiting, return_exceptions=True)

    def _start_due_runs(self) -> None:
        """Start runs while one is free, the oldest request first; else set the alarm."""
        loop = asyncio.get_running_loop()
        while self._free and self._queues:
            kind, due_s = min(
                ((kind, self._due_s(queue)) for kind, queue in self._queues.items()),
                key=lambda pair: pair[1],
            )
            if due_s > loop.time():
                self._set_alarm(due_s)
                return
            queue = self._queues[kind]
            requests = queue.take(self._plan.most_rows)
            if not queue.requests:
                del self._queues[kind]
            if requests:
                self._free -= 1
                task = loop.create_task(self._answer(requests))
                self._running.add(task)
                task.add_done_callback(self._ended)

    def _set_alarm(self, due_s: float) -> None:
        """Set the alarm, unless one is set: it is no later, and rings first.

        What comes later is due later, because every request may wait for equally long.
        """
        if self._alarm is None:
            self._alarm = asyncio.get_running_loop().call_at(due_s, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self._start_due_runs()

    def _due_s(self, queue: _Queue) -> float:
        """Return when a queue may run.

        A queue that fills a run may run at once, any other when its oldest request has waited
        enough.
        """
        oldest, newest = queue.requests[0], queue.requests[-1]
        if queue.rows >= self._plan.most_rows or not oldest.rows:
            return oldest.came_s
        return min(
            oldest.came_s + self._plan.longest_wait_s, newest.came_s + self._plan.longest_gap_s
        )

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._free += 1
        self._start_due_runs()

    async def _answer(self, requests: Sequence[_Request]) -> None:
        """Run ``requests`` on the executor and answer those that are still waiting.

        If the executor accepts nothing any more, they are cancelled.
        """
        loop = asyncio.get_running_loop()
        waited_s = [loop.time() - request.came_s for request in requests]
        self._on_run(sum(request.rows for request in requests), waited_s)
        try:
            outcomes = await loop.run_in_executor(
                self._executor, _written_outcomes, self._run, requests
            )
        except (RuntimeError, asyncio.CancelledError):  # the executor has been shut down
            for request in requests:
                request.answer.cancel()
            return
        for request, outcome in zip(requests, outcomes, strict=True):
            if request.answer.done():
                continue
            if isinstance(outcome, Exception):
                request.answer.set_exception(outcome)
            else:
                request.answer.set_result(outcome)


def _written_outcomes(run: Callable[[Arrays], Arrays], requests: Sequence[_Request]) -> list[Any]:
    """Return what each request's ``write`` makes of its outputs, or its error."""
    outcomes = outcomes_of(run, [request.inputs for request in requests])
    return [
        outcome if isinstance(outcome, Exception) else _outcome_of(partial(request.write, outcome))
        for request, outcome in zip(requests, outcomes, strict=True)
    ]


def outcomes_of(
    run: Callable[[Arrays], Arrays], requests: Sequence[Arrays]
) -> list[Arrays | Exception]:
    """Return the outputs or error of each request, from one run of all.

    If that fails, each request runs alone.
    """
    if len(requests) > 1:
        joined = _outcome_of(lambda: list(_joined_run(run, requests)))
        if not isinstance(joined, Exception):
            return list(joined)
        if isinstance(joined, LimitExceededError) and joined.limit == "time":
            return [joined] * len(requests)
    return [_outcome_of(partial(run, request)) for request in requests]


def _outcome_of(run: Callable[[], _Result]) -> _Result | Exception:
    try:
        return run()
    except Exception as error:  # noqa: BLE001 - it is raised where the answer is awaited
        return error


def _joined_run(run: Callable[[Arrays], Arrays], requests: Sequence[Arrays]) -> Iterator[Arrays]:
    """Yield each request's rows of one joined run.

    Raises:
        RunError: The outputs have another number of rows.
    """
    ends = np.cumsum([_rows_of(request) for request in requests])
    outputs = run(
        {name: np.concatenate([request[name] for request in requests]) for name in requests[0]}
    )
    for name, array in outputs.items():
        if not array.ndim or array.shape[0] != ends[-1]:
            raise RunError(
                f"output {quoted(name)} of a run of {ends[-1]} rows has the shape"
                f" {list(array.shape)}"
            )
    parts = {name: np.split(array, ends[:-1]) for name, array in outputs.items()}
    return ({name: rows[n] for name, rows in parts.items()} for n in range(len(requests)))


def _rows_of(inputs: Arrays) -> int:
    """Return the common number of rows of ``inputs``, or 0 if they cannot be joined."""
    lengths = {array.shape[0] if array.ndim else 0 for array in inputs.values()}
    return lengths.pop() if len(lengths) == 1 else 0


def _kind_of(request: _Request) -> _Kind:
    if not request.rows:
        return (object(),)
    return tuple(
        (name, array.dtype.str, array.shape[1:]) for name, array in sorted(request.inputs.items())
    )
