"""What options promise of memory and threads shows in what kernels see."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx.parser
import pytest

import ortpkg
from ortpkg.graph.custom_op_registry import unregister_custom_ops
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import ExecutionMode, SessionOptions

#: Above what the allocator of the system keeps in its own lists, and of several pages.
SIZE = 300
CHAIN = (
    f"g (float[{SIZE}, {SIZE}] x) => (float[{SIZE}, {SIZE}] y) {{ a = Exp(x) b = test.spy.Look(a) y"
    " = Neg(b) }"
)
BRANCHES = f"""g (float[{SIZE}, {SIZE}] x) => (float[{SIZE}, {SIZE}] y) {{
    a = Neg(x) b = Abs(x) c = test.spy.Look(a) d = test.spy.Look(b) y = Add(c, d) }}"""
LONG = f"""g (float[{SIZE}, {SIZE}] x) => (float[{SIZE}, {SIZE}] y) {{
    a = test.spy.Look(x) b = Neg(a) c = Abs(b) d = test.spy.Look(c) y = Neg(d) }}"""
IMPORTS = '<ir_version: 10, opset_import: ["" : 21, "test.spy" : 1]>\n'

Look = Callable[[np.ndarray], np.ndarray]


@contextmanager
def looking(look: Look) -> Iterator[None]:
    """``test.spy.Look`` is this function, in sessions that are made meanwhile."""
    operator = ortpkg.custom_op(
        "test.spy",
        "Look",
        inputs={"x": "float"},
        outputs={"y": "float"},
        output_shapes=lambda x: [x],
    )(look)
    ortpkg.register_custom_ops([operator])
    try:
        yield
    finally:
        unregister_custom_ops("test.spy")


def session_of(text: str, **settings: Any) -> InferenceSession:
    options = SessionOptions()
    for name, value in settings.items():
        setattr(options, name, value)
    return InferenceSession(onnx.parser.parse_model(IMPORTS + text).SerializeToString(), options)


def feeds(value: float = 0.5) -> dict[str, np.ndarray]:
    return {"x": np.full((SIZE, SIZE), value, np.float32)}


def owner_of(array: np.ndarray) -> Any:
    """Whose memory an array lies in, at the end of its views."""
    owner: Any = array
    while getattr(owner, "base", None) is not None:
        owner = owner.base
    return owner


@pytest.mark.parametrize("is_on", [True, False])
@pytest.mark.requirement("M16")
def test_with_a_memory_pattern_values_lie_in_one_block_and_without_it_in_memory_of_their_own(
    is_on: bool,
) -> None:
    owners: list[Any] = []

    def look(x: np.ndarray) -> np.ndarray:
        owners.append(owner_of(x))
        return x + 1

    with looking(look):
        session = session_of(CHAIN, enable_mem_pattern=is_on)
        for _ in range(3):
            session.run(None, feeds())
    nbytes = [memoryview(owner).nbytes for owner in owners]
    if is_on:
        assert owners[0] is owners[1] is owners[2]
    else:
        assert nbytes == [4 * SIZE * SIZE] * 3
        assert owners[0] is not owners[1]


@pytest.mark.requirement("M18")
@pytest.mark.requirement("M09")
@pytest.mark.parametrize("mode", ExecutionMode)
def test_a_value_is_gone_once_its_last_reader_has_run(mode: ExecutionMode) -> None:
    made: list[weakref.ref[np.ndarray]] = []
    alive: list[bool] = []

    def look(x: np.ndarray) -> np.ndarray:
        alive.extend(each() is not None for each in made)
        fresh = x * 2
        made.append(weakref.ref(fresh))
        return fresh

    with looking(look):
        settings = {"enable_mem_pattern": False, "enable_mem_reuse": False, "execution_mode": mode}
        session_of(LONG, **settings).run(None, feeds())
    assert alive == [False]


@pytest.mark.requirement("P02")
@pytest.mark.parametrize(
    ("mode", "meet"), [(ExecutionMode.ORT_PARALLEL, True), (ExecutionMode.ORT_SEQUENTIAL, False)]
)
def test_only_parallel_execution_runs_two_branches_at_a_time(
    mode: ExecutionMode, meet: bool
) -> None:
    barrier, met = threading.Barrier(2), list[bool]()

    def look(x: np.ndarray) -> np.ndarray:
        try:
            barrier.wait(timeout=30 if meet else 0.2)
            met.append(True)
        except threading.BrokenBarrierError:
            met.append(False)
        return x.copy()

    with looking(look):
        (found,) = session_of(BRANCHES, execution_mode=mode, inter_op_num_threads=2).run(
            None, feeds()
        )
    assert met == [meet, meet]
    np.testing.assert_array_equal(found, np.zeros((SIZE, SIZE), np.float32))


@pytest.mark.requirement("D09")
@pytest.mark.parametrize("mode", ExecutionMode)
def test_two_runs_in_the_middle_of_the_graph_at_once_do_not_share_memory(
    mode: ExecutionMode,
) -> None:
    barrier = threading.Barrier(2)

    def look(x: np.ndarray) -> np.ndarray:
        before = x.copy()
        barrier.wait(timeout=60)  # by now both runs have computed what they hand to this node
        assert np.array_equal(before, x), "another run wrote over it"
        return x * np.float32(1)

    results: dict[float, np.ndarray] = {}
    with looking(look):
        session = session_of(CHAIN, execution_mode=mode, inter_op_num_threads=4)
        barrier = threading.Barrier(1)
        session.run(None, feeds())
        barrier = threading.Barrier(2)

        def run(value: float) -> None:
            results[value] = np.asarray(session.run(None, feeds(value))[0])

        threads = [threading.Thread(target=run, args=(value,)) for value in (1.0, 2.0)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for value in (1.0, 2.0):
        np.testing.assert_allclose(
            results[value], -np.exp(np.full((SIZE, SIZE), value, np.float32)), rtol=1e-6
        )
