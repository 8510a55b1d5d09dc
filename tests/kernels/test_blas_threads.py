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
from ortpkg.runtime.kernels import blas_threads
from tests.fake_blas import FakeBlas, install_fake_blas
from tests.session.conftest import model_of, options_of, session_of


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> FakeBlas:
    return install_fake_blas(monkeypatch)


@pytest.mark.parametrize(("count", "seen"), [(0, [8]), (3, [8, 3, 8])])
@pytest.mark.parametrize("mode", ortpkg.ExecutionMode)
def test_library_has_the_sessions_count_for_the_run_only(
    library: FakeBlas, mode: ortpkg.ExecutionMode, count: int, seen: list[int]
) -> None:
    options = {"execution_mode": mode, "intra_op_num_threads": count}
    with session_of("g (float[2] x) => (float[2] y) { y = Neg(x) }", **options) as session:
        session.run(None, {"x": np.zeros(2, np.float32)})
    assert library.counts == seen


def test_kernel_that_holds_the_library_gives_back_what_the_run_had(library: FakeBlas) -> None:
    seen = []

    def run() -> None:
        blas_threads.call_held_to_one_thread(lambda: seen.append(library.counts[-1]))
        seen.append(library.counts[-1])

    blas_threads.call_with_blas_threads(3, run)
    assert [*seen, library.counts[-1]] == [1, 3, 8]


_ONE, _ALL = [8, 1, 8], [8]


@pytest.mark.parametrize(
    ("a", "b", "seen"),
    [
        ((1, 1024), (1024, 1024), _ONE),  # a row times a matrix
        ((1024,), (1024, 1024), _ONE),
        ((1024, 1024), (1024, 1), _ONE),
        ((4, 512), (512, 512), _ONE),
        ((2, 1, 512), (512, 512), _ONE),  # rows of two batches, one product
        ((64, 1, 512), (64, 512, 512), _ONE),  # many products, each of a row
        ((12, 1, 64), (12, 64, 512), _ONE),
        ((1, 2048), (2048, 2048), _ALL),  # what a second thread makes faster
        ((64, 512), (512, 512), _ALL),
        ((2, 64, 512), (2, 512, 512), _ALL),
        ((1, 64), (64, 64), _ALL),  # what the library gives one thread by itself
        ((64, 64), (64, 64), _ALL),
    ],
)
def test_products_too_small_for_two_threads_get_one(
    library: FakeBlas, a: tuple[int, ...], b: tuple[int, ...], seen: list[int]
) -> None:
    x, y = np.ones(a, np.float32), np.ones(b, np.float32)
    np.testing.assert_array_equal(blas_threads.matmul(x, y), np.matmul(x, y))
    assert library.counts == seen


def test_whole_numbers_never_get_to_the_library(library: FakeBlas) -> None:
    blas_threads.matmul(np.ones((1, 1024), np.int64), np.ones((1024, 1024), np.int64))
    assert library.counts == _ALL


_ROW_PRODUCTS = {
    "MatMul": "y = MatMul(x, w)",
    "Gemm": "y = Gemm <transB = 1> (x, w, x)",
    "Einsum": 'y = Einsum <equation = "ij,jk->ik"> (x, w)',
    "Loop": """y = Loop <body = b (int64 i, bool c, float[1, 1024] v) =>
        (bool go, float[1, 1024] o) { go = Identity(c) o = MatMul(v, w) }> (three, , x)""",
    "Scan": """y, s = Scan <num_scan_inputs = 1, body = b (float[1, 1024] v, float[1] e) =>
        (float[1, 1024] o, float[1] d) { o = MatMul(v, w) d = Identity(e) }> (x, steps)""",
    "If in a Loop": """y = Loop <body = b (int64 i, bool c, float[1, 1024] v) =>
        (bool go, float[1, 1024] o) { go = Identity(c) big = Greater(i, one)
            o = If (big) <then_branch = t () => (float[1, 1024] p) { p = MatMul(v, w) },
                else_branch = e () => (float[1, 1024] q) { q = Gemm(v, w) }> }> (three, , x)""",
}


@pytest.mark.parametrize("kind", _ROW_PRODUCTS)
def test_every_operator_multiplies_a_row_on_one_thread(library: FakeBlas, kind: str) -> None:
    text = f"""g (float[1, 1024] x, float[1024, 1024] w, float[3, 1] steps) => (float[1, 1024] y)
        <int64 three = {{3}}, int64 one = {{1}}> {{ {_ROW_PRODUCTS[kind]} }}"""
    options = {"graph_optimization_level": ortpkg.GraphOptimizationLevel.ORT_DISABLE_ALL}
    session = ortpkg.InferenceSession(
        model_of(text).SerializeToString(),
        options_of(**options),
        providers=["CPUExecutionProvider"],
    )
    feeds = {"x": (1, 1024), "w": (1024, 1024), "steps": (3, 1)}
    with session:
        session.run(None, {name: np.ones(shape, np.float32) for name, shape in feeds.items()})
    products = 1 if kind in ("MatMul", "Gemm", "Einsum") else 3
    assert library.counts == [8, *[1, 8] * products]


@pytest.mark.parametrize(("operator", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
@pytest.mark.parametrize("clip", ["", "clip = 9.0, "])
def test_steps_of_a_recurrent_layer_are_held_once(
    library: FakeBlas, operator: str, gates: int, clip: str
) -> None:
    text = f"""g (float[5, 1, 4] x, float[1, {gates * 256}, 4] w, float[1, {gates * 256}, 256] r)
        => (float[5, 1, 1, 256] y) {{ y = {operator} <{clip}hidden_size = 256> (x, w, r) }}"""
    session = ortpkg.InferenceSession(
        model_of(text).SerializeToString(), options_of(), providers=["CPUExecutionProvider"]
    )
    shapes = {"x": (5, 1, 4), "w": (1, gates * 256, 4), "r": (1, gates * 256, 256)}
    with session:
        session.run(None, {name: np.ones(shape, np.float32) for name, shape in shapes.items()})
    assert library.counts == _ONE


def test_a_run_that_has_one_thread_is_not_held_again(library: FakeBlas) -> None:
    def run() -> None:
        blas_threads.matmul(np.ones((1, 1024), np.float32), np.ones((1024, 1024), np.float32))

    blas_threads.call_with_blas_threads(1, run)
    assert library.counts == _ONE


def test_count_of_the_process_comes_back_after_runs_that_overlap(library: FakeBlas) -> None:
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
    library: FakeBlas, monkeypatch: pytest.MonkeyPatch, when: int
) -> None:
    calls = []
    plain = FakeBlas.set_num_threads

    def interrupted(self: FakeBlas, count: int) -> None:
        calls.append(count)
        if len(calls) == when:
            raise KeyboardInterrupt
        plain(self, count)
        if len(calls) == when - 1:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
        patch.setattr(FakeBlas, "set_num_threads", interrupted)
        blas_threads.call_with_blas_threads(3, lambda: None)
    blas_threads.call_with_blas_threads(0, lambda: None)
    assert library.counts[-1] == 8


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_in_the_middle_of_a_run_leaves_its_child_free() -> None:
    def run() -> None:
        child = os.fork()
        if child == 0:
            os._exit(0 if not blas_threads._counts.requests and _is_free() else 1)
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
