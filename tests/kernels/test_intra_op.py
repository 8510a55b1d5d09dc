"""Work spread over threads: every task once, errors raised, nothing left running, the library's threads given back."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from ortpkg.kernels import blas_threads, intra_op


def test_every_task_runs_once() -> None:
    done: list[int] = []
    with blas_threads.blas_threads(4):
        intra_op.parallel_for(100, done.append)
    assert sorted(done) == list(range(100))


def test_error_of_a_task_is_raised_once_no_task_runs_any_more() -> None:
    running: list[int] = []

    def task(number: int) -> None:
        running.append(number)
        time.sleep(0.002)
        running.remove(number)
        if number == 3:
            raise ValueError("task 3")

    with blas_threads.blas_threads(4), pytest.raises(ValueError, match="task 3"):
        intra_op.parallel_for(50, task)
    assert [number for number in running if number != 3] == []


def test_tasks_within_a_task_run_on_its_thread() -> None:
    seen: list[tuple[int, int]] = []

    def task(_number: int) -> None:
        here = threading.get_ident()
        assert intra_op.thread_count() == 1
        intra_op.parallel_for(3, lambda _: seen.append((here, threading.get_ident())))

    with blas_threads.blas_threads(2):
        intra_op.parallel_for(4, task)
    assert len(seen) == 12
    assert all(outer == inner for outer, inner in seen)


def test_one_thread_runs_all_tasks_itself() -> None:
    seen: set[int] = set()
    with blas_threads.blas_threads(1):
        assert intra_op.thread_count() == 1
        intra_op.parallel_for(20, lambda _: seen.add(threading.get_ident()))
    assert seen == {threading.get_ident()}


def test_many_callers_at_once_each_get_their_tasks_done() -> None:
    counts = [0] * 8

    def caller(which: int) -> None:
        done: list[int] = []
        for _ in range(20):
            intra_op.parallel_for(10, done.append)
        counts[which] = len(done)

    threads = [threading.Thread(target=caller, args=(which,)) for which in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [200] * 8


def test_library_has_one_thread_inside_and_its_own_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    class Library:
        count = 6

        def get_num_threads(self) -> int:
            return self.count

        def set_num_threads(self, count: int) -> None:
            self.count = count

    library = Library()
    controller = type("Controller", (), {"lib_controllers": [library]})()
    monkeypatch.setattr(blas_threads, "_controller", lambda: controller)
    inside: list[int] = []
    intra_op.parallel_for(4, lambda _: inside.append(library.count))
    assert inside == [1] * 4
    assert library.count == 6
    with blas_threads.held_to_one_thread(), blas_threads.blas_threads(3):
        assert library.count == 1
        assert intra_op.thread_count() == 3
    assert library.count == 6


def test_other_threads_have_the_error_state_of_the_caller() -> None:
    seen: list[tuple[str, int]] = []

    def task(_number: int) -> None:
        time.sleep(0.002)
        seen.append((np.geterr()["over"], np.getbufsize()))

    with np.errstate(over="raise"):
        np.setbufsize(128)
        with blas_threads.blas_threads(3):
            intra_op.parallel_for(12, task)
    assert seen == [("raise", 128)] * 12
    assert np.getbufsize() != 128
