"""Sessions bear callers and files: a typed error or the right answer, never a crash."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from ortpkg.foundations.errors import (
    InvalidFeedError,
    InvalidSessionOptionError,
    ModelFileError,
    SessionError,
    UsageError,
)
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import ExecutionMode, SessionOptions
from ortpkg.runtime.session.values.ort_value import OrtValue
from tests.graph.model_factories import external_tensor, parse, save
from tests.session.conftest import ENDLESS_LOOP, session_of

NEG = "g (float[N] x) => (float[N] y) { y = Neg(x) }"
X = {"x": np.ones(2, np.float32)}


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="Windows lets nobody truncate a mapped file")
@pytest.mark.parametrize("is_external", [True, False])
def test_a_weight_file_that_becomes_shorter_between_runs_is_an_error(
    tmp_path: Path, *, is_external: bool
) -> None:
    weights = np.arange(65536, dtype=np.float32)
    proto = parse(
        "g (float[65536] x) => (float[65536] y) { y = Add(x, w) }",
        None if is_external else {"w": weights},
    )
    if is_external:
        (tmp_path / "w.bin").write_bytes(weights.tobytes())
        proto.graph.initializer.append(external_tensor("w", "w.bin", dims=weights.shape))
    path = save(proto, tmp_path)
    if not is_external:  # weights are mapped in place only where they lie aligned
        proto.doc_string = "-" * next(n for n in range(64) if _weights_aligned(proto, weights, n))
        path = save(proto, tmp_path)
    with InferenceSession(path) as session:
        feeds = {"x": np.ones(65536, np.float32)}
        assert session.run(None, feeds)[0][1] == 2
        os.truncate(tmp_path / ("w.bin" if is_external else "model.onnx"), 100)

        with pytest.raises(ModelFileError, match="became shorter while the session was open"):
            session.run(None, feeds)


def _weights_aligned(proto: onnx.ModelProto, weights: Any, padding: int) -> bool:
    padded = onnx.ModelProto()
    padded.CopyFrom(proto)
    padded.doc_string = "-" * padding
    return bool(padded.SerializeToString().index(weights[:64].tobytes()) % 4 == 0)


def test_a_weight_file_may_be_replaced_by_a_new_one(tmp_path: Path) -> None:
    proto = parse("g (float[4] x) => (float[4] y) { y = Add(x, w) }")
    proto.graph.initializer.append(external_tensor("w", "w.bin", dims=(4,)))
    (tmp_path / "w.bin").write_bytes(np.ones(4, np.float32).tobytes())
    with InferenceSession(save(proto, tmp_path)) as session:
        (tmp_path / "new").write_bytes(b"")
        (tmp_path / "new").replace(tmp_path / "w.bin")

        assert session.run(None, {"x": np.ones(4, np.float32)})[0].tolist() == [2, 2, 2, 2]


# --- threads --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ExecutionMode, ids=lambda mode: mode.name)
def test_closing_waits_for_the_runs_under_way(mode: ExecutionMode) -> None:
    session = session_of(ENDLESS_LOOP, timeout_s=0.5, execution_mode=mode, inter_op_num_threads=2)
    errors: list[BaseException] = []
    all_begin = threading.Barrier(4)

    def run() -> None:
        all_begin.wait(30)
        try:
            session.run(None, {"start": np.ones(2, np.float32)})
        except Exception as error:  # noqa: BLE001 - looked at below
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    all_begin.wait(30)
    time.sleep(0.1)
    session.close()

    for thread in threads:
        thread.join(10)
    assert len(errors) == 3
    assert all("passed its time limit" in str(error) for error in errors)
    with pytest.raises(SessionError, match="the session is closed"):
        session.run(None, {"start": np.ones(2, np.float32)})


class _Dying(dict[str, Any]):
    """A mapping that cannot be read."""

    def __iter__(self) -> Any:
        raise ZeroDivisionError("no keys")


@pytest.mark.parametrize(
    ("feeds", "message"), [(_Dying(), "no keys"), (None, "a mapping from input names")]
)
def test_run_async_tells_the_callback_of_any_error(feeds: Any, message: str) -> None:
    called = threading.Event()
    errors: list[str] = []

    def callback(_outputs: Sequence[Any], _user_data: Any, error: str) -> None:
        errors.append(error)
        called.set()

    with session_of(NEG) as session:
        session.run_async(None, feeds, callback)
        assert called.wait(10)
    assert message in errors[0]


def test_the_callback_of_run_async_may_close_the_session() -> None:
    session = session_of(NEG)
    closed = threading.Event()

    def callback(_outputs: Sequence[Any], _user_data: Any, _error: str) -> None:
        session.close()
        closed.set()

    session.run_async(None, X, callback)
    assert closed.wait(10)
    with pytest.raises(SessionError, match="the session is closed"):
        session.run(None, X)


# --- feeds, outputs, bindings, options ------------------------------------------------------------


def test_an_output_that_stands_twice_is_two_arrays() -> None:
    proto = parse("g (float[2] x) => (float[2] y, float[2] x) { y = Neg(x) }")
    proto.graph.output.append(proto.graph.output[0])
    with InferenceSession(proto.SerializeToString()) as session:
        first, fed, second = session.run(None, X)

    assert first.tolist() == second.tolist() == [-1, -1]
    assert not np.shares_memory(first, second)
    assert not np.shares_memory(fed, X["x"])


@pytest.mark.parametrize("feeds", [None, [1, 2], "x"])
def test_feeds_are_a_mapping(feeds: Any) -> None:
    with (
        session_of(NEG) as session,
        pytest.raises(InvalidFeedError, match="a mapping from input names"),
    ):
        session.run(None, feeds)


@pytest.mark.parametrize(
    ("shape", "address"),
    [((2,), 0), ((2,), -8), ((-1,), 8), ((2**62, 4), 8)],
    ids=["null", "low", "negative", "huge"],
)
def test_a_binding_to_no_memory_is_refused(shape: tuple[int, ...], address: int) -> None:
    with session_of(NEG) as session, pytest.raises(UsageError, match="there is no tensor of shape"):
        session.io_binding().bind_input("x", "cpu", 0, np.float32, shape, address)


def test_a_binding_to_read_only_memory_or_objects_is_refused() -> None:
    array = np.ones(2, np.float32)
    array.flags.writeable = False
    with session_of(NEG) as session:
        binding = session.io_binding()
        with pytest.raises(UsageError, match="'y' is bound to a read-only array"):
            binding.bind_ortvalue_output("y", OrtValue.ortvalue_from_numpy(array))
        with pytest.raises(UsageError, match="object cannot be bound by its address"):
            binding.bind_input("x", "cpu", 0, np.dtype(object), (2,), 8)


def test_limits_are_numbers() -> None:
    with pytest.raises(
        InvalidSessionOptionError, match="timeout_s is a positive number or None, not '1 s'"
    ):
        session_of(NEG, timeout_s="1 s")
    with pytest.raises(InvalidSessionOptionError, match="memory_limit_nbytes is a positive number"):
        session_of(NEG, memory_limit_nbytes=True)


# --- lies about shapes ----------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ExecutionMode, ids=lambda mode: mode.name)
def test_declared_shapes_that_lie_change_nothing(mode: ExecutionMode) -> None:
    """All values are declared as [1, 4], which is what the plan is made for.

    They have a thousand rows.
    """
    text = """g (float[1, 4] x, int64[2] s) => (float[1, 4] y)
    <float[1, 4] a, float[1, 4] b, float[1, 4] c, float[1, 4] d> {
        a = Expand(x, s) b = Neg(a) c = Abs(b) d = Max(c, b) y = Add(d, a) }"""
    x = np.arange(4, dtype=np.float32).reshape(1, 4)
    with session_of(text, execution_mode=mode, inter_op_num_threads=2) as session:
        for _ in range(3):
            (y,) = session.run(None, {"x": x, "s": np.array([1000, 4])})
            np.testing.assert_array_equal(y, np.broadcast_to(2 * x, (1000, 4)))


# --- size -----------------------------------------------------------------------------------------


def start_s(nodes: list[onnx.NodeProto], outputs: list[str]) -> float:
    """Seconds until a session of these nodes on input x is made.

    Its answers are Neg(x), summed or not.
    """
    x = helper.make_tensor_value_info("x", 1, [2])
    made = [helper.make_tensor_value_info(name, 1, None) for name in outputs]
    model = helper.make_model(
        helper.make_graph(nodes, "g", [x], made),
        opset_imports=[helper.make_opsetid("", 21)],
        ir_version=10,
    )
    start = time.process_time()
    session = InferenceSession(model.SerializeToString(), SessionOptions())
    duration_s = time.process_time() - start
    with session:
        assert session.run(None, X)[0].shape == (2,)
    return duration_s


@pytest.mark.parametrize("op_type", ["Neg", "Identity", "Cast"])
def test_thousands_of_equal_nodes_that_feed_one_are_merged_in_linear_time(op_type: str) -> None:
    def nodes(count: int) -> list[onnx.NodeProto]:
        attributes: dict[str, Any] = {"to": 1} if op_type == "Cast" else {}
        made = [helper.make_node(op_type, ["x"], [f"v{i}"], **attributes) for i in range(count)]
        return [*made, helper.make_node("Sum", [f"v{i}" for i in range(count)], ["y"])]

    few = start_s(nodes(500), ["y"])
    many = start_s(nodes(4000), ["y"])

    assert many < 30 * few + 0.5  # linear: 8 times, quadratic: 64 times
