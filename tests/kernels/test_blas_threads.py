"""The thread count of the linear-algebra library is borrowed for a run, and given back."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import ortpkg
from ortpkg.kernels import blas_threads
from tests.session.conftest import session_of


class FakeLibrary:
    """A BLAS that remembers which counts it was given."""

    def __init__(self) -> None:
        self.counts = [8]

    def get_num_threads(self) -> int:
        return self.counts[-1]

    def set_num_threads(self, count: int) -> None:
        self.counts.append(count)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> FakeLibrary:
    found = FakeLibrary()
    controller = type("Controller", (), {"lib_controllers": [found]})()
    monkeypatch.setattr(blas_threads, "_controller", lambda: controller)
    return found


@pytest.mark.parametrize(("count", "seen"), [(0, [8]), (3, [8, 3, 8])])
@pytest.mark.parametrize("mode", ortpkg.ExecutionMode)
def test_library_has_the_sessions_count_for_the_run_only(
    library: FakeLibrary, mode: ortpkg.ExecutionMode, count: int, seen: list[int]
) -> None:
    options = {"execution_mode": mode, "intra_op_num_threads": count}
    with session_of("g (float[2] x) => (float[2] y) { y = Neg(x) }", **options) as session:
        session.run(None, {"x": np.zeros(2, np.float32)})
    assert library.counts == seen


def test_kernel_that_holds_the_library_gives_back_what_the_run_had(library: FakeLibrary) -> None:
    seen = []

    def run() -> None:
        blas_threads.call_held_to_one_thread(lambda: seen.append(library.counts[-1]))
        seen.append(library.counts[-1])

    blas_threads.call_with_blas_threads(3, run)
    assert [*seen, library.counts[-1]] == [1, 3, 8]


def test_count_of_the_process_comes_back_after_runs_that_overlap(library: FakeLibrary) -> None:
    first_may_end, second_may_end, second_began = (threading.Event() for _ in range(3))

    def second_run() -> None:
        second_began.set()
        second_may_end.wait()

    first = threading.Thread(
        target=blas_threads.call_with_blas_threads, args=(2, first_may_end.wait)
    )
    second = threading.Thread(
        target=blas_threads.call_with_blas_threads,
        args=(4, second_run),
    )
    first.start()
    while library.counts[-1] != 2:
        time.sleep(0.001)
    second.start()
    second_began.wait()
    first_may_end.set()
    first.join()
    assert library.counts[-1] == 4
    second_may_end.set()
    second.join()
    assert library.counts[-1] == 8


@pytest.mark.parametrize("when", range(1, 5))
def test_an_interrupt_while_counts_change_leaves_the_library_as_it_was(
    library: FakeLibrary, monkeypatch: pytest.MonkeyPatch, when: int
) -> None:
    calls = []
    plain = FakeLibrary.set_num_threads

    def interrupted(self: FakeLibrary, count: int) -> None:
        calls.append(count)
        if len(calls) == when:
            raise KeyboardInterrupt
        plain(self, count)
        if len(calls) == when - 1:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
        patch.setattr(FakeLibrary, "set_num_threads", interrupted)
        blas_threads.call_with_blas_threads(3, lambda: None)
    blas_threads.call_with_blas_threads(0, lambda: None)
    assert library.counts[-1] == 8


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_in_the_middle_of_a_run_leaves_its_child_free() -> None:
    def run() -> None:
        child = os.fork()
        if child == 0:
            os._exit(0 if not blas_threads._counts.wanted and _is_free() else 1)
        with blas_threads._counts.lock:
            other = os.fork()
            if other == 0:
                os._exit(0 if _is_free() else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert os.waitpid(other, 0)[1] == 0

    blas_threads.call_held_to_one_thread(run)


def _is_free() -> bool:
    """Return True if another thread of this process gets the lock of the counts."""
    with ThreadPoolExecutor(1) as other:
        return other.submit(blas_threads._counts.lock.acquire, blocking=False).result()
