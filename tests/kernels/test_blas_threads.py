"""The thread count of the linear-algebra library is borrowed for a run, and given back."""

from __future__ import annotations

import numpy as np
import pytest

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


def test_count_holds_for_the_run_only(library: FakeLibrary) -> None:
    with session_of("g (float[2] x) => (float[2] y) { y = Neg(x) }", intra_op_num_threads=3) as session:
        session.run(None, {"x": np.zeros(2, np.float32)})
    assert library.counts == [8, 3, 8]


def test_session_without_a_count_touches_nothing(library: FakeLibrary) -> None:
    with session_of("g (float[2] x) => (float[2] y) { y = Neg(x) }") as session:
        session.run(None, {"x": np.zeros(2, np.float32)})
    assert library.counts == [8]


def test_count_of_the_process_comes_back_after_runs_that_overlap(library: FakeLibrary) -> None:
    first, second = blas_threads.blas_threads(2), blas_threads.blas_threads(4)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert library.counts[-1] == 4
    second.__exit__(None, None, None)
    assert library.counts[-1] == 8
