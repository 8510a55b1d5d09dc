"""Spreads one kernel's work over threads: panels, channels, images.

The threads are the process's, started when first needed, and idle at no cost. numpy lets go of the interpreter's lock
inside products, ufuncs and copies, so tasks of a tenth of a millisecond and more run side by side. Meanwhile the
linear-algebra library is held to one thread; how many threads take part is what it would have had
(``intra_op_num_threads``).
"""

from __future__ import annotations

import contextvars
import itertools
import os
import threading
from collections.abc import Callable

from ortpkg.kernels import blas_threads


class _Job:
    """Tasks 0 to count - 1, taken in order by whoever is free. ``next`` on a counter is atomic."""

    def __init__(self, count: int, task: Callable[[int], None]) -> None:
        self._count = count
        self._task = task
        self._numbers = itertools.count()
        self._error: BaseException | None = None

    def work(self) -> None:
        """Takes tasks until none is left, or one has failed."""
        while self._error is None and (number := next(self._numbers)) < self._count:
            self._task(number)

    def work_for_other(self) -> None:
        """What :meth:`work` does, on another thread than the one that will see the error."""
        try:
            self.work()
        except BaseException as error:  # noqa: BLE001 - raised again where the job was started
            self._error = error

    def stop(self, error: BaseException) -> None:
        """Lets nobody take another task."""
        self._error = error

    def raise_error(self) -> None:
        """Raises what a task on another thread raised."""
        if self._error is not None:
            raise self._error


class _Shift:
    """One worker's part in one job: whoever claims it first, the worker to do it or the starter to call it off."""

    def __init__(self, job: _Job) -> None:
        self._job = job
        self._context = contextvars.copy_context()  # numpy's error state and buffer size are those of the starter
        self._claim = threading.Lock()
        self._done = threading.Lock()
        self._done.acquire()

    def work(self) -> None:
        if self._claim.acquire(blocking=False):
            self._context.run(self._job.work_for_other)
            self._done.release()

    def end(self) -> None:
        """Returns when the worker neither works nor will; not even an interrupt ends it sooner: memory is shared."""
        if self._claim.acquire(blocking=False):
            return
        while True:
            try:
                if self._done.acquire():
                    return
            except BaseException as error:  # noqa: BLE001 - raised by the job
                self._job.stop(error)


class _Worker:
    """A thread that sleeps until it is given a shift, and offers itself again afterwards."""

    def __init__(self) -> None:
        self._wake = threading.Lock()
        self._wake.acquire()
        self._shift: _Shift | None = None
        threading.Thread(target=self._serve, name="ortpkg-intra-op", daemon=True).start()

    def give(self, shift: _Shift) -> None:
        self._shift = shift
        self._wake.release()

    def _serve(self) -> None:
        _here.is_inside = True
        while True:
            self._wake.acquire()
            shift, self._shift = self._shift, None
            if shift is not None:
                shift.work()
            del shift  # what it refers to is the run's
            _idle.append(self)


class _Here(threading.local):
    #: Whether this thread is at work on a job: what it starts itself runs on it alone.
    is_inside = False


_here = _Here()
_idle: list[_Worker] = []
_most_workers = max((os.cpu_count() or 1) - 1, 0)
_worker_numbers = itertools.count()


def _hire() -> _Worker | None:
    """An idle worker, or a new one; None where all are busy with other runs."""
    try:
        return _idle.pop()
    except IndexError:
        return _Worker() if next(_worker_numbers) < _most_workers else None


def parallel_for(count: int, task: Callable[[int], None]) -> None:
    """Runs ``task(0)`` to ``task(count - 1)``, on several threads where that helps; returns when all are done.

    Tasks must not depend on each other. The first error ends the job and is raised here. Inside a task, and with one
    thread, tasks run one after the other. One task alone is simply called, so that it may spread its own work.
    """
    if _here.is_inside or count == 1:
        for number in range(count):
            task(number)
        return
    threads = blas_threads.hold_to_one_thread()
    _here.is_inside = True
    try:
        workers = [worker for _ in range(min(threads, count) - 1) if (worker := _hire()) is not None]
        if not workers:
            for number in range(count):
                task(number)
            return
        _share(_Job(count, task), workers)
    finally:
        _here.is_inside = False
        blas_threads.release()


def _share(job: _Job, workers: list[_Worker]) -> None:
    shifts = [_Shift(job) for _ in workers]
    for worker, shift in zip(workers, shifts, strict=True):
        worker.give(shift)
    try:
        job.work()
    except BaseException as error:
        job.stop(error)
        raise
    finally:
        for shift in shifts:
            shift.end()
    job.raise_error()


def thread_count() -> int:
    """How many threads :func:`parallel_for` would use here: what to cut work into."""
    return 1 if _here.is_inside else blas_threads.thread_count()


def _forget_workers() -> None:
    """A forked child has none of its parent's threads."""
    global _worker_numbers  # noqa: PLW0603
    _idle.clear()
    _worker_numbers = itertools.count()
    _here.is_inside = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_workers)
