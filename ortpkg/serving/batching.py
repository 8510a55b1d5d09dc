"""Joins requests that wait at the same time into one run, along their first dimension.

What waits while a run goes on makes the next one, as in other servers' dynamic batching. A lone
request waits for company no longer than the plan says.
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

from ortpkg.errors import LimitExceededError, RunError, quoted

Arrays = Mapping[str, npt.NDArray[Any]]
#: Inputs of the same kind can be joined: names, element types, shapes but for the first dimension.
_Kind = tuple[object, ...]
_Result = TypeVar("_Result")
#: Of the latency bound: how long a lone request may wait for company however short runs are.
_LEAST_GAP = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """How requests are joined.

    Attributes:
        most_rows: of a run; a request that has more runs alone.
        longest_wait_s: for company, where something is free to run; 0: no request waits for others
            that have not come yet.
        longest_gap_s: after so long without a further request nobody waits any more.
    """

    most_rows: int
    longest_wait_s: float = 0.0
    longest_gap_s: float = math.inf


def plan_batches(times_s: Mapping[int, float], bound_s: float) -> BatchPlan | None:
    """The plan with the most rows a second whose requests are answered within ``bound_s``.

    A request may come just when a run has begun: it waits until that ends, and then for its own. So
    two runs have to fit. What is left of the bound may be waited while requests keep coming; a lone
    one waits no longer than a run takes, or than a tenth of the bound: reading a request may take
    a server longer than a run.

    Args:
        times_s: rows → seconds of a run of so many, as measured.
        bound_s: the longest time from a request to its answer.

    Returns None where not even the smallest measured run fits twice.
    """
    fitting = {rows: time_s for rows, time_s in times_s.items() if 2 * time_s <= bound_s}
    if not fitting:
        return None
    rows = max(fitting, key=lambda each: (each / max(fitting[each], 1e-9), each))
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
    """Requests of one kind, in the order in which they came."""

    requests: deque[_Request] = field(default_factory=deque)
    rows: int = 0

    def take(self, most_rows: int) -> list[_Request]:
        """The first requests that fit into a run; at least one."""
        taken: list[_Request] = []
        rows = 0
        while self.requests and (not taken or rows + self.requests[0].rows <= most_rows):
            request = self.requests.popleft()
            self.rows -= request.rows
            if not request.answer.done():  # nobody waits for a request that was cancelled
                taken.append(request)
                rows += request.rows
        return taken


class Batcher:
    """Runs requests, joined with others of the same kind where some wait.

    Belongs to one event loop, which never waits for a run. A request that fails does not take
    others with it: where a joined run fails, each of its requests runs alone.

    Args:
        run: runs inputs once; its outputs have as many rows as the inputs, in the same order.
        plan: how many, and how long.
        executor: where runs go on.
        most_runs: at the same time; no more than ``executor`` has threads.
        on_run: told how many rows each run has, and how long each of its requests waited.
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
        self._alarm_s = 0.0

    @property
    def waiting(self) -> int:
        """How many requests have not begun to run."""
        return sum(len(queue.requests) for queue in self._queues.values())

    async def infer(self, inputs: Arrays, write: Callable[[Arrays], _Result]) -> _Result:
        """Return what ``write`` makes of the outputs for ``inputs``, those of a run of them alone.

        Raises what ``run`` and ``write`` raise, which is called on the executor, too.

        Inputs that are scalars, or differ in their first dimension, or have no row, are joined with
        nothing.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[_Result] = loop.create_future()
        request = _Request(inputs, _rows_of(inputs), write, answer, loop.time())
        queue = self._queues.setdefault(_kind_of(request), _Queue())
        queue.requests.append(request)
        queue.rows += request.rows
        self._start_what_is_due()
        return await answer

    async def drain(self) -> None:
        """Waits until everything that came has been answered."""
        while self._running or self._queues:
            waiting = [each.answer for queue in self._queues.values() for each in queue.requests]
            await asyncio.gather(*self._running, *waiting, return_exceptions=True)

    def _start_what_is_due(self) -> None:
        """Starts runs while something is free, the oldest request first; else sets the alarm."""
        loop = asyncio.get_running_loop()
        while self._free and self._queues:
            kind, due_s = min(
                ((kind, self._due_s(queue)) for kind, queue in self._queues.items()),
                key=lambda each: each[1],
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
        """Has what is due looked for then; an alarm that rings before does so, and is set anew."""
        if self._alarm is not None:
            if self._alarm_s <= due_s:
                return
            self._alarm.cancel()
        self._alarm_s = due_s
        self._alarm = asyncio.get_running_loop().call_at(due_s, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self._start_what_is_due()

    def _due_s(self, queue: _Queue) -> float:
        """When a queue may run: at once where it fills a run, else when its oldest has waited.

        Or when nobody else has come for a while.
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
        self._start_what_is_due()

    async def _answer(self, requests: Sequence[_Request]) -> None:
        """Runs ``requests`` on the executor and answers each that somebody still waits for.

        Where the executor takes nothing any more, they are cancelled.
        """
        loop = asyncio.get_running_loop()
        waited_s = [loop.time() - each.came_s for each in requests]
        self._on_run(sum(each.rows for each in requests), waited_s)
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
    """Return what each request's ``write`` makes of its outputs, or the error that it ends with."""
    outcomes = outcomes_of(run, [request.inputs for request in requests])
    return [
        outcome if isinstance(outcome, Exception) else _outcome_of(partial(request.write, outcome))
        for request, outcome in zip(requests, outcomes, strict=True)
    ]


def outcomes_of(
    run: Callable[[Arrays], Arrays], requests: Sequence[Arrays]
) -> list[Arrays | Exception]:
    """What each of ``requests`` gives: of one run of all, or, where that fails, of its own.

    A joined run that passes its time limit is the answer to all of its requests: one after another
    they would take longer still.
    """
    if len(requests) > 1:
        joined = _outcome_of(lambda: list(_joined_run(run, requests)))
        if not isinstance(joined, Exception):
            return list(joined)
        if isinstance(joined, LimitExceededError) and joined.limit == "time":
            return [joined] * len(requests)
    return [_outcome_of(partial(run, each)) for each in requests]


def _outcome_of(run: Callable[[], _Result]) -> _Result | Exception:
    try:
        return run()
    except Exception as error:  # noqa: BLE001 - it is raised where the answer is awaited
        return error


def _joined_run(run: Callable[[Arrays], Arrays], requests: Sequence[Arrays]) -> Iterator[Arrays]:
    """Each one's rows of one run of all. RunError where the outputs have other rows."""
    ends = np.cumsum([_rows_of(each) for each in requests])
    outputs = run({name: np.concatenate([each[name] for each in requests]) for name in requests[0]})
    for name, array in outputs.items():
        if not array.ndim or array.shape[0] != ends[-1]:
            raise RunError(
                f"output {quoted(name)} of a run of {ends[-1]} rows has the shape"
                f" {list(array.shape)}"
            )
    parts = {name: np.split(array, ends[:-1]) for name, array in outputs.items()}
    return ({name: rows[n] for name, rows in parts.items()} for n in range(len(requests)))


def _rows_of(inputs: Arrays) -> int:
    """How many rows ``inputs`` have in common; 0 where they are not to be joined."""
    lengths = {array.shape[0] if array.ndim else 0 for array in inputs.values()}
    return lengths.pop() if len(lengths) == 1 else 0


def _kind_of(request: _Request) -> _Kind:
    if not request.rows:
        return (object(),)
    return tuple(
        (name, array.dtype.str, array.shape[1:]) for name, array in sorted(request.inputs.items())
    )
