"""Kernels that compute for minutes end with their run: in the middle, or before they begin."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from ortpkg.foundations.errors import CancelledError, LimitExceededError, OrtpkgError
from ortpkg.foundations.isolation.polling import poll_run, polled, run_interruptibly
from ortpkg.graph.shapes import resampling
from ortpkg.runtime.kernels import einsum as einsum_module
from ortpkg.runtime.kernels import matrix_product
from ortpkg.runtime.kernels.matrix_product import product_in_blocks
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import ExecutionMode, RunOptions, SessionOptions

LIMIT_S = 0.5


def model(
    op_type: str, feeds: Mapping[str, Any], outputs: int = 1, opset: int = 18, **attributes: Any
) -> bytes:
    """One node on inputs like ``feeds``."""
    types = {
        name: helper.np_dtype_to_tensor_dtype(array.dtype)
        for name, array in feeds.items()
        if array.dtype != object
    }
    inputs = [
        helper.make_tensor_value_info(name, types.get(name, TensorProto.STRING), array.shape)
        for name, array in feeds.items()
    ]
    names = [f"y{number}" for number in range(outputs)]
    node = helper.make_node(op_type, list(feeds), names, **attributes)
    graph = helper.make_graph(
        [node], "g", inputs, [helper.make_empty_tensor_value_info(name) for name in names]
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    return bytes(made.SerializeToString())


def ones(*shape: int, dtype: Any = np.float32) -> Any:
    return np.ones(shape, dtype)


def rois() -> dict[str, Any]:
    boxes = np.array([[0, 0, 1e6, 1e6]], np.float32)
    return {"x": ones(1, 16, 50, 50), "rois": boxes, "batch": np.zeros(1, np.int64)}


def squares(dtype: Any, *stack: int) -> dict[str, Any]:
    return {"a": ones(*stack, 3000, 3000, dtype=dtype), "b": ones(3000, 3000, dtype=dtype)}


NGRAMS: dict[str, Any] = {
    "mode": "TF", "min_gram_length": 1, "max_gram_length": 50, "max_skip_count": 1000, "ngram_counts": [0],
    "ngram_indexes": list(range(100)), "pool_int64s": list(range(100)),
}  # fmt: skip
#: Name → operator, its inputs, how many outputs it has, its attributes.
LONG: dict[str, tuple[str, Callable[[], dict[str, Any]], int, dict[str, Any]]] = {
    "max-pool": (
        "MaxPool",
        lambda: {"x": ones(1, 1, 3000, 3000)},
        1,
        {"kernel_shape": [1500, 1500]},
    ),
    "max-pool-with-indices": (
        "MaxPool",
        lambda: {"x": ones(1, 2, 400, 400)},
        2,
        {"kernel_shape": [200, 200]},
    ),
    "max-pool-with-gaps": (
        "MaxPool",
        lambda: {"x": ones(1, 1, 8)},
        1,
        {"kernel_shape": [1 << 30], "pads": [(1 << 30) - 1] * 2, "strides": [1 << 29]},
    ),
    "roi-align": (
        "RoiAlign",
        rois,
        1,
        {"output_height": 1, "output_width": 1, "sampling_ratio": 0},
    ),
    "lrn": ("LRN", lambda: {"x": ones(1, 9000, 20, 20)}, 1, {"size": 8999}),
    "tf-idf": ("TfIdfVectorizer", lambda: {"x": ones(1, 300_000, dtype=np.int64)}, 1, NGRAMS),
    "matmul-integer": ("MatMulInteger", lambda: squares(np.int8, 20), 1, {}),
    "integer-matmul": ("MatMul", lambda: squares(np.int64), 1, {}),
    "einsum": ("Einsum", lambda: squares(np.int64), 1, {"equation": "ij,jk->ik"}),
    "conv": (
        "Conv",
        lambda: {"x": ones(1, 64, 256, 256), "w": ones(8, 64, 31, 31)},
        1,
        {"pads": [15] * 4},
    ),
    "conv-strided": (
        "Conv",
        lambda: {"x": ones(1, 64, 512, 512), "w": ones(8, 64, 31, 31)},
        1,
        {"pads": [15] * 4, "strides": [2, 2]},
    ),
    "conv-depthwise": (
        "Conv",
        lambda: {"x": ones(1, 64, 256, 256), "w": ones(64, 1, 63, 63)},
        1,
        {"pads": [31] * 4, "group": 64},
    ),
    "conv-transpose": (
        "ConvTranspose",
        lambda: {"x": ones(64, 64, 64, 64), "w": ones(64, 4, 31, 31)},
        1,
        {},
    ),
    "split-to-sequence": ("SplitToSequence", lambda: {"x": ones(6_000_000)}, 1, {}),
    "det": ("Det", lambda: {"x": ones(6000, 6000)}, 1, {}),
    "string-normalizer": (
        "StringNormalizer",
        lambda: {"x": np.array(["ab" * 4000] * 9000, object)},
        1,
        {"case_change_action": "LOWER"},
    ),
    "unique-slices": ("Unique", lambda: {"x": ones(2, 6_000_000)}, 1, {"axis": 0}),
}


def long(name: str) -> tuple[bytes, dict[str, Any]]:
    """A model that computes for minutes, and its feeds."""
    op_type, feeds, outputs, attributes = LONG[name]
    made = feeds()
    return model(op_type, made, outputs, **attributes), made


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", list(LONG))
def test_a_kernel_ends_with_its_run(name: str) -> None:
    content, feeds = long(name)
    with InferenceSession(content, SessionOptions(), ["cpu"]) as session:
        start_s = time.thread_time()
        with pytest.raises(LimitExceededError) as raised:
            session.run(None, feeds, RunOptions(timeout_s=LIMIT_S))
    assert raised.value.limit == "time"
    assert time.thread_time() - start_s < 8 * LIMIT_S


def test_a_sum_over_what_one_factor_has_alone_is_no_product() -> None:
    feeds = {"a": ones(200, 200, 200), "b": ones(200, 200, 200)}
    with InferenceSession(model("Einsum", feeds, equation="aij,bjk->ab"), None, ["cpu"]) as session:
        (found,) = session.run(None, feeds)
    np.testing.assert_allclose(found, np.full((200, 200), 200.0**3), rtol=1e-6)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(7, 5), (5, 3)]),
        ("ij,jk->", [(7, 5), (5, 3)]),
        ("iij,jk->ik", [(4, 4, 5), (5, 3)]),
        ("...ij,...jk->...ik", [(2, 1, 7, 5), (3, 5, 4)]),
        ("i...j,j->i...", [(6, 2, 5), (5,)]),
        ("bij,bjk->bik", [(1, 6, 5), (4, 5, 3)]),
        ("ij,jk,kl->il", [(3, 4), (4, 5), (5, 6)]),
        ("abcd,dcba,acbd->", [(2, 3, 2, 3), (3, 2, 3, 2), (2, 2, 3, 3)]),
        ("...ij,jk,k...->...i", [(4, 2, 3), (3, 5), (5, 4)]),
    ],
)
def test_a_contraction_in_parts_is_the_same(
    equation: str, shapes: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(0)
    feeds = {
        f"x{at}": random.normal(size=shape).astype(np.float32) for at, shape in enumerate(shapes)
    }
    monkeypatch.setattr(einsum_module, "_MOST_WORK_AT_ONCE", 10)
    with InferenceSession(model("Einsum", feeds, equation=equation), None, ["cpu"]) as session:
        (found,) = session.run(None, feeds)
    np.testing.assert_allclose(found, np.einsum(equation, *feeds.values()), rtol=1e-4, atol=1e-5)


def test_what_a_contraction_makes_on_the_way_counts() -> None:
    feeds = {f"x{at}": np.ones((20,) * 4, np.float32) for at in range(3)}  # of 640 kB each
    limit = RunOptions(memory_limit_nbytes=1_500_000)
    equation = "abcd,dcba,acbd->"
    with InferenceSession(model("Einsum", feeds, equation=equation), None, ["cpu"]) as session:
        with pytest.raises(LimitExceededError, match="passes its memory limit"):
            session.run(None, feeds, limit)
        limit.memory_limit_nbytes = 4_000_000
        assert session.run(None, feeds, limit) == [160_000]


@pytest.mark.parametrize(
    "shapes", [((9, 5), (5, 4)), ((2, 3, 9, 5), (3, 5, 4)), ((9, 5), (2, 5, 4))]
)
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_a_product_in_blocks_is_the_same(
    shapes: Any, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = (np.arange(np.prod(shape)).reshape(shape).astype(dtype) for shape in shapes)
    monkeypatch.setattr(matrix_product, "_MOST_PRODUCTS_AT_ONCE", 50)
    monkeypatch.setattr(matrix_product, "_MOST_PRODUCTS_WITHOUT_BLAS", 50)
    polls: list[None] = []
    out = np.empty((a @ b).shape, dtype)
    with polled(lambda: polls.append(None)):
        product_in_blocks(a, b, out)
    np.testing.assert_array_equal(out, a @ b)
    assert len(polls) > 1


def test_texts_resized_in_blocks_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.array([["a", "b", "c"], ["d", "e", "f"]], object)
    monkeypatch.setattr(resampling, "_MOST_ELEMENTS_AT_ONCE", 4)
    feeds = {"x": x, "scales": np.array([1, 3], np.float32)}
    with InferenceSession(model("Upsample", feeds, opset=9), None, ["cpu"]) as session:
        (found,) = session.run(None, feeds)
    np.testing.assert_array_equal(found, np.repeat(x, 3, axis=1))


def test_resizing_texts_ends_with_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resampling, "_MOST_ELEMENTS_AT_ONCE", 4)
    feeds = {"x": np.array(["a"] * 10, object), "scales": np.array([4e6], np.float32)}
    content = model("Upsample", feeds, opset=9)
    with (
        InferenceSession(content, None, ["cpu"]) as session,
        pytest.raises(LimitExceededError),
    ):
        session.run(None, feeds, RunOptions(timeout_s=LIMIT_S))


def test_texts_have_no_values_between_them() -> None:
    feeds = {"x": np.array(["a", "b"], object), "scales": np.array([2], np.float32)}
    content = model("Upsample", feeds, opset=9, mode="linear")
    with (
        InferenceSession(content, None, ["cpu"]) as session,
        pytest.raises(OrtpkgError, match="texts have no linear values"),
    ):
        session.run(None, feeds)


class Watched:
    """A run that ends when it is told to."""

    is_watched = True
    is_memory_limited = False

    def __init__(self) -> None:
        self.is_over = threading.Event()

    def check_cancelled(self) -> None:
        if self.is_over.is_set():
            raise CancelledError("enough")

    def check_allocation(self, nbytes: int) -> None: ...


def test_code_that_asks_nobody_is_ended_where_it_is() -> None:
    run = Watched()

    def compute() -> None:
        run.is_over.set()
        while True:
            pass

    with pytest.raises(CancelledError, match="enough"):
        run_interruptibly(run, compute)


class Finalized:
    """Computes in its finalizer, where the interpreter forgets what is raised and goes on."""

    def __del__(self) -> None:
        while True:
            pass


def test_code_is_told_again_where_a_finalizer_swallowed_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    printed: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda told: printed.append(told.exc_type))
    run = Watched()

    def compute() -> None:
        run.is_over.set()
        Finalized()
        while True:
            pass

    with pytest.raises(CancelledError, match="enough"):
        run_interruptibly(run, compute)
    assert not printed


class Broken:
    """Fails in its finalizer."""

    def __del__(self) -> None:
        raise ValueError("broken")


def test_what_else_is_not_raised_is_told_to_whom_it_was_told_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    printed: list[object] = []

    def before(told: Any) -> None:
        printed.append(told.exc_type)

    monkeypatch.setattr(sys, "unraisablehook", before)
    run = Watched()

    def compute_within() -> None:
        Broken()

    def compute() -> None:
        run_interruptibly(run, compute_within)
        Broken()

    run_interruptibly(run, compute)
    assert printed == [ValueError, ValueError]
    assert sys.unraisablehook is before


def test_a_hook_that_was_set_while_code_ran_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    printed: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda told: printed.append(told.exc_type))
    run = Watched()

    def compute() -> None:
        ours = sys.unraisablehook

        def theirs(told: Any) -> None:
            printed.append("theirs")
            ours(told)

        sys.unraisablehook = theirs

    def compute_later() -> None:
        Broken()

    run_interruptibly(run, compute)
    set_meanwhile = sys.unraisablehook
    run_interruptibly(run, compute_later)
    assert sys.unraisablehook is set_meanwhile
    assert printed == ["theirs", ValueError]


def test_what_ends_in_time_is_not_touched_afterwards() -> None:
    run = Watched()
    for _ in range(20):
        assert run_interruptibly(run, lambda: 7) == 7
    run.is_over.set()
    for _ in range(10_000):
        poll_run()


_ENDED_AND_TRACED = """
import sys, threading
from ortpkg.foundations.isolation import polling

call = polling._PythonCall()
thread = threading.Thread(target=call.stop)

def compute():
    thread.start()
    while True:
        pass

try:
    call.run(compute)
except polling._EndedError:
    print("ended")

def traced():
    pass

sys.settrace(lambda *_: None)
traced()
print("returned")
"""


def test_a_thread_is_as_before_once_its_computation_was_ended() -> None:
    # CPython 3.11 does not return from a traced call while it looks for what never arrives.
    child = subprocess.run(
        [sys.executable, "-c", _ENDED_AND_TRACED],
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )

    assert child.stdout.split() == ["ended", "returned"]


def test_a_kernel_on_another_thread_ends_with_its_run() -> None:
    content, feeds = long("lrn")
    options = SessionOptions(execution_mode=ExecutionMode.ORT_PARALLEL, inter_op_num_threads=2)
    with InferenceSession(content, options, ["cpu"]) as session, pytest.raises(LimitExceededError):
        session.run(None, feeds, RunOptions(timeout_s=LIMIT_S))
