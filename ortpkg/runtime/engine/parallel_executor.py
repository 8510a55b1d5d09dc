"""Run nodes on several threads as soon as their inputs are ready (``ORT_PARALLEL``).

The thread that calls ``run`` works too, so that a run makes progress even when other runs keep the
pool busy. Uses of values are counted at run time, because the order is not the plan's.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from queue import SimpleQueue

import numpy as np

from ortpkg.foundations.host.signal_handlers import pass_on_handlers_error
from ortpkg.foundations.host.turns import uninterrupted
from ortpkg.foundations.isolation.polling import polled
from ortpkg.runtime.engine.execution_frame import ExecutionFrame, NodeContext
from ortpkg.runtime.engine.execution_plan import ABSENT, ExecutionPlan
from ortpkg.runtime.engine.helper_threads import HelperThreads
from ortpkg.runtime.engine.instructions import Instruction
from ortpkg.runtime.engine.run_errors import run_error


class ParallelExecutor:
    """Executor of a plan's instructions on up to ``thread_count`` threads, including the caller's.

    The plan's allocation must have been made for parallel execution.
    """

    def __init__(self, plan: ExecutionPlan, pool: HelperThreads, thread_count: int) -> None:
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
        """Run all ``instructions``; raise the first error once no other node is running."""
        run = _ParallelRun(
            instructions,
            frame,
            self._successors,
            list(self._waits),
            list(self._uses),
            self._used,
            self._thread_count,
        )
        try:
            for _ in range(min(self._thread_count, len(instructions)) - 1):
                self._pool.submit(run.help)
            run.work()
        except BaseException as error:  # an interrupt of the caller's thread, outside of a node
            run.error = error
            raise
        finally:
            uninterrupted(run.end)
        if run.error is not None:
            raise run.error


class _ParallelRun:
    """The state that the threads of one run share, guarded by ``_lock``.

    Threads wait only at a queue and for locks, because an interrupt of the caller's thread may come
    after any call, and a condition that is interrupted may lose its lock.
    """

    def __init__(
        self,
        instructions: Sequence[Instruction],
        frame: ExecutionFrame,
        successors: Sequence[Sequence[int]],
        waits: list[int],
        uses: list[int],
        used: Sequence[tuple[int, ...]],
        thread_count: int,
    ) -> None:
        self._instructions = instructions
        self._frame = frame
        self._successors = successors
        self._waits = waits
        self._uses = uses
        self._used = used
        self._thread_count = thread_count
        self._left = len(instructions)
        self._lock = threading.Lock()
        self._helping: list[threading.Lock] = []
        self._has_ended = False
        self.error: BaseException | None = None
        #: Nodes to run; None ends one thread.
        self._ready: SimpleQueue[int | None] = SimpleQueue()
        for number, count in enumerate(waits):
            if count == 0:
                self._ready.put(number)
        if not instructions:
            self._dismiss()

    def help(self) -> None:
        """Work in a thread of the pool, unless the caller has gone on by then."""
        helping = threading.Lock()
        with helping:
            with self._lock:
                if self._has_ended:
                    return
                self._helping.append(helping)
            try:
                self.work()
            except BaseException as error:  # noqa: BLE001 - it crosses threads and is raised by the caller
                self.fail(error)

    def end(self) -> None:
        """Keep further helpers from beginning, and wait for those that use the run's memory."""
        with self._lock:
            self._has_ended = True
        self._dismiss()
        for helping in self._helping:
            with helping:
                pass

    def work(self) -> None:
        """Run ready nodes until none is left, or one has failed."""
        with np.errstate(all="ignore"), polled(self._frame.control.check):
            while (number := self._ready.get()) is not None and self.error is None:
                try:
                    self._run(self._instructions[number])
                except BaseException as error:  # noqa: BLE001 - it crosses threads and is raised by the caller
                    self.fail(error)
                    return
                self._finish(number)

    def fail(self, error: BaseException) -> None:
        """End the run with ``error``, unless it has failed already, once no node is running."""
        if self.error is None:
            self.error = error
        self._dismiss()

    def _dismiss(self) -> None:
        for _ in range(self._thread_count):
            self._ready.put(None)

    def _run(self, instruction: Instruction) -> None:
        frame = self._frame
        frame.control.check()
        context = NodeContext(frame, instruction)
        context.arguments = [frame.values[index] for index in instruction.inputs]
        try:
            frame.store(context, instruction.compute(context, *context.arguments))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a plug-in may raise SystemExit or GeneratorExit
            pass_on_handlers_error(error)
            raise run_error(error, instruction) from error

    def _finish(self, number: int) -> None:
        outputs = (
            slot.value_index
            for slot in self._instructions[number].outputs
            if slot.value_index != ABSENT
        )
        with self._lock:
            for index in (*outputs, *self._used[number]):
                self._uses[index] -= 1
                if self._uses[index] == 0:
                    self._frame.forget(index)
            for successor in self._successors[number]:
                self._waits[successor] -= 1
                if self._waits[successor] == 0:
                    self._ready.put(successor)
            self._left -= 1
            if not self._left:
                self._dismiss()
