"""Runs nodes on several threads as soon as their inputs are there (``ORT_PARALLEL``).

The thread that calls ``run`` works too, so that a run makes progress even when other runs keep the
pool busy. Which values die when is counted at run time here, for the order is not the plan's.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ortpkg.engine.execution_frame import ExecutionFrame, NodeContext
from ortpkg.engine.execution_plan import ABSENT, ExecutionPlan
from ortpkg.engine.instructions import Instruction
from ortpkg.engine.run_errors import run_error
from ortpkg.kernels.polling import polled


class ParallelExecutor:
    """Runs a plan's instructions on up to ``thread_count`` threads, the caller's among them.

    The plan's allocation must have been made for parallel execution.
    """

    def __init__(self, plan: ExecutionPlan, pool: ThreadPoolExecutor, thread_count: int) -> None:
        producers = {
            index: number for number, step in enumerate(plan.steps) for index in step.outputs
        }
        self._pool = pool
        self._thread_count = thread_count
        self._successors: list[list[int]] = [[] for _ in plan.steps]
        self._waits: list[int] = []
        self._uses = [0] * len(plan.values)
        self._used: list[tuple[int, ...]] = []
        for number, step in enumerate(plan.steps):
            used = tuple(
                dict.fromkeys(i for i in (*step.inputs, *step.implicit_inputs) if i != ABSENT)
            )
            before = dict.fromkeys(producers[index] for index in used if index in producers)
            for producer in before:
                self._successors[producer].append(number)
            self._waits.append(len(before))
            self._used.append(used)
            for index in (*used, *(i for i in step.outputs if i != ABSENT)):
                self._uses[index] += 1
        for index in (*plan.inputs, *plan.initializers, *plan.outer_values, *plan.outputs):
            self._uses[index] += 1

    def __call__(self, instructions: Sequence[Instruction], frame: ExecutionFrame) -> None:
        """Runs all ``instructions``; raises the first error once no other node is running."""
        run = _ParallelRun(
            instructions, frame, self._successors, list(self._waits), list(self._uses), self._used
        )
        helpers = [
            self._pool.submit(run.work)
            for _ in range(min(self._thread_count, len(instructions)) - 1)
        ]
        run.work()
        for helper in helpers:
            if not helper.cancel():
                helper.result()
        if run.error is not None:
            raise run.error


class _ParallelRun:
    """The state that the threads of one run share.

    Everything mutable is guarded by ``_changed``.
    """

    def __init__(
        self,
        instructions: Sequence[Instruction],
        frame: ExecutionFrame,
        successors: Sequence[Sequence[int]],
        waits: list[int],
        uses: list[int],
        used: Sequence[tuple[int, ...]],
    ) -> None:
        self._instructions = instructions
        self._frame = frame
        self._successors = successors
        self._waits = waits
        self._uses = uses
        self._used = used
        self._ready = deque(number for number, count in enumerate(waits) if count == 0)
        self._left = len(instructions)
        self._changed = threading.Condition()
        self.error: BaseException | None = None

    def work(self) -> None:
        """Runs ready nodes until none is left, or one has failed."""
        with np.errstate(all="ignore"), polled(self._frame.control.check):
            while (number := self._next()) is not None:
                try:
                    self._run(self._instructions[number])
                except BaseException as error:  # noqa: BLE001 - it crosses threads and is raised by the caller
                    self._fail(error)
                    return
                self._finish(number)

    def _next(self) -> int | None:
        with self._changed:
            while not self._ready and self._left and self.error is None:
                self._changed.wait()
            return self._ready.popleft() if self._ready and self.error is None else None

    def _run(self, instruction: Instruction) -> None:
        frame = self._frame
        frame.control.check()
        context = NodeContext(frame, instruction)
        context.arguments = [frame.values[index] for index in instruction.inputs]
        try:
            frame.store(context, instruction.compute(context, *context.arguments))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a plug-in may raise what ends processes or generators
            raise run_error(error, instruction) from error

    def _finish(self, number: int) -> None:
        made = (
            slot.value_index
            for slot in self._instructions[number].outputs
            if slot.value_index != ABSENT
        )
        with self._changed:
            for index in (*made, *self._used[number]):
                self._uses[index] -= 1
                if self._uses[index] == 0:
                    self._frame.forget(index)
            for successor in self._successors[number]:
                self._waits[successor] -= 1
                if self._waits[successor] == 0:
                    self._ready.append(successor)
            self._left -= 1
            self._changed.notify_all()

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            if self.error is None:
                self.error = error
            self._changed.notify_all()
