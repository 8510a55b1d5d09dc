"""The thread count of the linear-algebra library is borrowed for a run, and given back."""

from __future__ import annotations

import os

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
    with blas_threads.blas_threads(3):
        with blas_threads.held_to_one_thread():
            assert library.counts[-1] == 1
        assert library.counts[-1] == 3
    assert library.counts[-1] == 8


def test_count_of_the_process_comes_back_after_runs_that_overlap(library: FakeLibrary) -> None:
    first, second = blas_threads.blas_threads(2), blas_threads.blas_threads(4)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert library.counts[-1] == 4
    second.__exit__(None, None, None)
    assert library.counts[-1] == 8


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_in_the_middle_of_a_run_leaves_its_child_free() -> None:
    with blas_threads.held_to_one_thread():
        child = os.fork()
        if child == 0:
            is_free = not blas_threads._holders and blas_threads._lock.acquire(blocking=False)
            os._exit(0 if is_free else 1)
        with blas_threads._lock:
            other = os.fork()
            if other == 0:
                os._exit(0 if blas_threads._lock.acquire(blocking=False) else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert os.waitpid(other, 0)[1] == 0
