"""Queue of LLVM modules to compile: child processes compile some while more are made.

llvmlite lets only one thread of a process compile at a time, and makes it wait for Python between
its calls; so processes use the other cores. They are started when there is more to do than starting
takes. Modules that no process has begun are compiled in this process at the end. Each module is
compiled by itself, so that its code is the same wherever it is compiled.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, wait
from typing import NamedTuple

from ortpkg.compiler.emission.elf_object import LinkedCode
from ortpkg.compiler.emission.object_compiler import ObjectCompiler
from ortpkg.compiler.emission.object_worker import compile_in, start_compiling_process
from ortpkg.foundations.ep_names import LLVM_EP
from ortpkg.foundations.errors import CompileError
from ortpkg.foundations.isolation.worker import Worker, WorkerCallError, WorkerEndedError
from ortpkg.graph.load_control import poll_load

#: Characters of waiting modules that LLVM compiles in the time that a process takes to start.
_WORTH_A_PROCESS = 400_000
#: Characters in one request: between two requests a process waits for this one's Python.
_REQUEST_LENGTH = 200_000
_MOST_PROCESSES = 8
_POLL_S = 0.05

Code = Future[LinkedCode]


class _Task(NamedTuple):
    module_text: str
    code: Code


class CompilationQueue:
    """Compiles modules for one CPU. Close it, which ends its processes."""

    def __init__(self, compiler: ObjectCompiler, *, most_processes: int) -> None:
        self._compiler = compiler
        self._most_processes = min(most_processes, _MOST_PROCESSES)
        self._changed = threading.Condition()
        self._waiting: deque[_Task] = deque()
        self._is_closed = False
        self._processes: list[Worker] = []
        self._unshared_length = 0

    @property
    def process_count(self) -> int:
        """Number of processes that it has started."""
        return len(self._processes)

    def put(self, module_text: str) -> Code:
        """Queue a module; return its code, which is complete after :meth:`finish`."""
        task = _Task(module_text, Future())
        with self._changed:
            self._waiting.append(task)
            self._changed.notify()
        self._unshared_length += len(module_text)
        if self._unshared_length > _WORTH_A_PROCESS:
            self._unshared_length = 0
            self._start_process()
        return task.code

    def finish(self, codes: Sequence[Code]) -> None:
        """Compile the modules that no process has begun, and wait for all of ``codes``.

        Raises:
            CompileError: if LLVM fails.
            LimitExceededError: if a load limit is exceeded.
        """
        while (task := self._take_last()) is not None:
            poll_load()
            task.code.set_result(self._compiler.link(task.module_text))
        while wait(codes, _POLL_S).not_done:
            poll_load()
        for code in codes:
            code.result()

    def close(self) -> None:
        """End the processes; modules that still wait are not compiled."""
        with self._changed:
            self._is_closed = True
            self._waiting.clear()
            self._changed.notify_all()
        for process in self._processes:
            process.close()

    def _start_process(self) -> None:
        if len(self._processes) >= self._most_processes:
            return
        try:
            process = start_compiling_process(self._compiler)
        except OSError:  # compile everything in this process instead
            self._most_processes = 0
            return
        self._processes.append(process)
        threading.Thread(
            target=self._serve, args=(process,), name="ortpkg-compiling", daemon=True
        ).start()

    def _serve(self, process: Worker) -> None:
        """Let a process compile waiting modules until the queue is closed or the process fails."""
        while tasks := self._take_first():
            try:
                codes = compile_in(process, [task.module_text for task in tasks])
            except (WorkerCallError, WorkerEndedError) as error:
                for task in tasks:
                    task.code.set_exception(_failure(error))
                return
            for task, code in zip(tasks, codes, strict=True):
                task.code.set_result(code)

    def _take_first(self) -> list[_Task]:
        """Return the first tasks, as many as fit a request; none if the queue is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closed)
            tasks: list[_Task] = []
            length = 0
            while self._waiting and length < _REQUEST_LENGTH:
                tasks.append(self._waiting.popleft())
                length += len(tasks[-1].module_text)
            return tasks

    def _take_last(self) -> _Task | None:
        with self._changed:
            return self._waiting.pop() if self._waiting else None


def _failure(error: WorkerCallError | WorkerEndedError) -> CompileError:
    if isinstance(error, WorkerCallError):
        return CompileError(str(error), ep_name=LLVM_EP)
    return CompileError(f"the process that compiled kernels failed: {error}", ep_name=LLVM_EP)
