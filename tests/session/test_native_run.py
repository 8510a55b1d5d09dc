"""A session of one node on a native library: the engine adds what protects the caller."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import onnx.parser
import pytest

from ortpkg.foundations.errors import (
    CancelledError,
    LimitExceededError,
    RunError,
    SessionError,
    UsageError,
)
from ortpkg.runtime.engine import executable_graph
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import ExecutionMode, RunOptions, SessionOptions

pytest.importorskip("onnxruntime")
from ortpkg.runtime.providers import onnxruntime_library

MLP = """<ir_version: 10, opset_import: ["" : 17]>
mlp (float[N, 4] x, float[N, 4] b) => (float[N, 4] y, float[N, 4] z) { s = Add(x, b) y = Relu(s) z = Neg(s) }"""
DEFAULTED = """<ir_version: 10, opset_import: ["" : 17]>
scaled (float[N, 4] x, float[1] scale) => (float[N, 4] y) <float[1] scale = {3}> { y = Mul(x, scale) }"""
HANDED_THROUGH = """<ir_version: 10, opset_import: ["" : 17]>
both (float[N, 4] x) => (float[N, 4] y, float[N, 4] x) { y = Relu(x) }"""
Compute = Callable[[Any, Sequence[Any], Any], Sequence[Any]]


def _session(
    text: str = MLP, options: SessionOptions | None = None, **arguments: Any
) -> InferenceSession:
    model = onnx.parser.parse_model(text).SerializeToString()
    return InferenceSession(model, options, **{"backend": "onnxruntime", **arguments})


def _feeds(rows: int = 2) -> dict[str, Any]:
    x = np.arange(rows * 4, dtype=np.float32).reshape(rows, 4)
    return {"x": x - 3, "b": np.ones((rows, 4), np.float32)}


def test_runs_a_model_that_one_library_takes_whole() -> None:
    with _session() as session:
        assert [each.fused_node != "" for each in session.get_partitions()] == [True]
        y, z = session.run(None, _feeds())
    np.testing.assert_array_equal(y, [[0, 0, 0, 1], [2, 3, 4, 5]])
    np.testing.assert_array_equal(z, [[2, 1, 0, -1], [-2, -3, -4, -5]])


@pytest.mark.parametrize("names", [None, ["y", "z"], ["z"], ["z", "y"]])
def test_a_model_of_one_partition_runs_without_a_frame(
    names: list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _session() as session:
        expected = dict(zip(["y", "z"], session.run(None, _feeds()), strict=True))

        def no_frame(*_arguments: Any, **_keywords: Any) -> Any:
            raise AssertionError("a run made a frame")

        monkeypatch.setattr(executable_graph, "ExecutionFrame", no_frame)
        results = session.run(names, _feeds())
        for name, result in zip(names or expected, results, strict=True):
            np.testing.assert_array_equal(result, expected[name])
        with pytest.raises(AssertionError, match="made a frame"):  # limits need one
            session.run(names, _feeds(), RunOptions())


def test_an_output_that_is_asked_for_twice_is_two_arrays_of_a_partition_too() -> None:
    with _session() as session:
        one, other = session.run(["y", "y"], _feeds())
    np.testing.assert_array_equal(one, other)
    assert not np.shares_memory(one, other)


def test_openvino_gives_what_onnxruntime_gives() -> None:
    pytest.importorskip("openvino")
    with (
        _session(backend="openvino", providers=["OpenVINOExecutionProvider"]) as session,
        _session() as other,
    ):
        for ours, theirs in zip(
            session.run(None, _feeds()), other.run(None, _feeds()), strict=True
        ):
            np.testing.assert_allclose(ours, theirs)


def test_an_input_that_is_handed_through_is_copied() -> None:
    x = _feeds()["x"]
    with _session(HANDED_THROUGH) as session:
        y, through = session.run(None, {"x": x})
    np.testing.assert_array_equal(through, x)
    np.testing.assert_array_equal(y, np.maximum(x, 0))
    assert not np.may_share_memory(through, x)


def test_numpys_settings_are_left_alone_where_a_library_computes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[Any] = []

    def compute(_self: Any, inputs: Sequence[Any], _context: Any) -> Sequence[Any]:
        seen.append(np.geterr()["over"])
        return [inputs[0] + 0, inputs[0] + 0]

    monkeypatch.setattr(onnxruntime_library.OnnxRuntimeModel, "compute", compute)
    with _session() as session, np.errstate(over="raise"):
        session.run(None, _feeds())
    assert seen == ["raise"]


@pytest.mark.parametrize("names", [["z"], ["z", "y"], ["y", "y"], ["z", "y", "z"], [], None])
def test_gives_the_outputs_that_are_named_each_an_array_of_its_own(names: list[str] | None) -> None:
    made = {"y": [[0, 0, 0, 1], [2, 3, 4, 5]], "z": [[2, 1, 0, -1], [-2, -3, -4, -5]]}
    expected = [made[name] for name in (names or ["y", "z"])]
    with _session() as session:
        found = session.run(names, _feeds())
    assert len(found) == len(expected)
    for number, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        np.testing.assert_array_equal(ours, theirs)
        assert ours.flags.writeable
        assert not any(np.may_share_memory(ours, each) for each in found[:number])


def test_an_unknown_output_is_refused() -> None:
    with _session() as session, pytest.raises(UsageError, match="no output 'w'"):
        session.run(["w"], _feeds())


def test_a_default_stands_in_for_an_input_that_is_left_out() -> None:
    x = _feeds()["x"]
    with _session(DEFAULTED) as session:
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], x * 3)
        np.testing.assert_array_equal(
            session.run(None, {"x": x, "scale": np.array([2], np.float32)})[0], x * 2
        )
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], x * 3)


def test_feeds_of_any_layout_are_taken_and_left_as_they_were() -> None:
    feeds = {"x": np.asfortranarray(_feeds()["x"]), "b": np.broadcast_to(np.float32(1), (2, 4))}
    before = {name: value.copy() for name, value in feeds.items()}
    with _session() as session:
        np.testing.assert_array_equal(session.run(["y"], feeds)[0], [[0, 0, 0, 1], [2, 3, 4, 5]])
    for name, value in feeds.items():
        np.testing.assert_array_equal(value, before[name])


@pytest.mark.requirement("D09")
def test_results_are_the_callers_own_whatever_other_threads_run() -> None:
    with _session() as session, ThreadPoolExecutor(4) as threads:
        sizes = [1 + number % 7 for number in range(200)]
        found = list(threads.map(lambda rows: session.run(["y"], _feeds(rows))[0], sizes))
    for rows, y in zip(sizes, found, strict=True):
        np.testing.assert_array_equal(y, np.maximum(_feeds(rows)["x"] + 1, 0))


def test_a_closed_session_does_not_run() -> None:
    session = _session()
    session.close()
    with pytest.raises(SessionError, match="closed"):
        session.run(None, _feeds())


def test_closing_waits_for_the_run_that_is_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    session = _session()
    inside, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def compute(_self: Any, inputs: Sequence[Any], _context: Any) -> Sequence[Any]:
        inside.set()
        may_end.wait(10)
        ended.set()
        return [inputs[0] + 0, inputs[0] + 0]

    monkeypatch.setattr(onnxruntime_library.OnnxRuntimeModel, "compute", compute)
    with ThreadPoolExecutor(2) as threads:
        run = threads.submit(session.run, None, _feeds())
        assert inside.wait(10)
        closing = threads.submit(session.close)
        with pytest.raises(TimeoutError):
            closing.result(timeout=0.1)
        may_end.set()
        closing.result(timeout=10)
        assert ended.is_set()
        assert len(run.result(timeout=10)) == 2


def test_a_run_that_was_ended_does_not_begin() -> None:
    with _session() as session, pytest.raises(CancelledError):
        session.run(None, _feeds(), RunOptions(terminate=True))


def _limited(**limits: Any) -> SessionOptions:
    options = SessionOptions()
    for name, value in limits.items():
        setattr(options, name, value)
    return options


def test_outputs_count_towards_the_memory_limit() -> None:
    rows = 1 << 14
    with (
        _session(options=_limited(memory_limit_nbytes=rows * 16 + 1)) as session,
        pytest.raises(LimitExceededError, match=r"node 'CPU.*memory limit") as caught,
    ):
        session.run(None, _feeds(rows))
    assert caught.value.limit == "memory"


def _raises(error: BaseException) -> Compute:
    def compute(_self: Any, _inputs: Sequence[Any], _context: Any) -> Sequence[Any]:
        raise error

    return compute


def _from_context(_self: Any, inputs: Sequence[Any], context: Any) -> Sequence[Any]:
    made = [context.output(at, inputs[0].shape, inputs[0].dtype) for at in range(2)]
    for each in made:
        each[...] = inputs[0]
    return made


def _asks_for_too_much(_self: Any, inputs: Sequence[Any], context: Any) -> Sequence[Any]:
    context.check_allocation(1 << 62)
    return inputs


def _read_only(array: Any) -> Any:
    array.flags.writeable = False
    return array


#: What a library may do that is not what is asked of it, and what the caller gets: arrays, or an
#: error and what it says.
_MANNERS: dict[str, tuple[Compute, Any]] = {
    "gives back its inputs": (
        lambda _self, inputs, _context: inputs,
        lambda x, b: (x, b),
    ),
    "gives back a view of an input": (
        lambda _self, inputs, _context: [inputs[0][:1], inputs[1].T],
        lambda x, b: (x[:1], b.T),
    ),
    "gives what cannot be written": (
        lambda _self, inputs, _context: [_read_only(each + 1) for each in inputs],
        lambda x, b: (x + 1, b + 1),
    ),
    "gives numbers": (
        lambda _self, _inputs, _context: (np.float32(1), np.float32(2)),
        lambda _x, _b: (np.array(1, np.float32), np.array(2, np.float32)),
    ),
    "gives a view of what is its own": (
        lambda _self, inputs, _context: [(each + 1)[::-1] for each in inputs],
        lambda x, b: ((x + 1)[::-1], (b + 1)[::-1]),
    ),
    "asks the engine for memory": (_from_context, lambda x, _b: (x, x)),
    "gives texts": (
        lambda _self, _inputs, _context: (np.array(["a"]), np.array([b"b"])),
        (RunError, "it gets from CPUExecutionProvider 'y' as <U1[1], declared is tensor(float)"),
    ),
    "gives one of two": (
        lambda _self, inputs, _context: [inputs[0] + 1],
        (RunError, "CPUExecutionProvider returned 1 outputs where the node has 2"),
    ),
    "gives three of two": (
        lambda _self, inputs, _context: [inputs[0] + 1] * 3,
        (RunError, "CPUExecutionProvider returned 3 outputs where the node has 2"),
    ),
    "gives nothing": (
        lambda _self, _inputs, _context: (),
        (RunError, "CPUExecutionProvider returned 0 outputs where the node has 2"),
    ),
    "gives what is no array": (
        lambda _self, _inputs, _context: (None, "text"),
        (RunError, "it gets from CPUExecutionProvider 'y' as NoneType, declared is tensor(float)"),
    ),
    "asks for too much": (
        _asks_for_too_much,
        (LimitExceededError, "the run asks for 4611686.1 TB"),
    ),
    "raises": (_raises(ValueError("\x1b[31mno")), (RunError, "(CPU__0) failed: \\x1b[31mno")),
    "runs out of memory": (
        _raises(MemoryError("none left")),
        (LimitExceededError, "(CPU__0) failed: out of memory: none left"),
    ),
    "raises an error of ours": (_raises(CancelledError("ended")), (CancelledError, "ended")),
    "ends the process": (_raises(SystemExit(3)), (RunError, "(CPU__0) failed: SystemExit: 3")),
    "ends a generator": (_raises(GeneratorExit()), (RunError, "(CPU__0) failed: GeneratorExit")),
    "raises what is no Exception": (
        _raises(BaseException("odd")),
        (RunError, "(CPU__0) failed: BaseException: odd"),
    ),
}


@pytest.mark.parametrize(("compute", "expected"), _MANNERS.values(), ids=_MANNERS)
def test_whatever_a_library_does_the_caller_gets_arrays_of_its_own_or_an_error_that_names_the_node(
    compute: Compute, expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnxruntime_library.OnnxRuntimeModel, "compute", compute)
    feeds = _feeds()
    with _session() as session:
        if isinstance(expected, tuple):
            kind, said = expected
            with pytest.raises(kind) as caught:
                session.run(None, feeds)
            assert said in str(caught.value)
            assert getattr(caught.value, "node_name", "CPU__0") == "CPU__0"
            return
        results = session.run(None, feeds)
    for result, each in zip(results, expected(feeds["x"], feeds["b"]), strict=True):
        assert type(result) is np.ndarray
        assert (result.dtype, result.shape) == (each.dtype, each.shape)
        np.testing.assert_array_equal(result, each)
        assert result.flags.writeable
        assert not any(np.may_share_memory(result, feed) for feed in feeds.values())


@pytest.mark.parametrize("mode", ExecutionMode)
@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit(), BaseException("odd")])
def test_whatever_a_library_raises_is_an_error_of_the_run(
    error: BaseException, mode: ExecutionMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnxruntime_library.OnnxRuntimeModel, "compute", _raises(error))
    options = _limited(execution_mode=mode, inter_op_num_threads=2, enable_profiling=True)
    with (
        _session(options=options) as session,
        pytest.raises(RunError, match=r"node 'CPU__0' \(CPU__0\) failed: \w"),
    ):
        session.run(None, _feeds())


@pytest.mark.parametrize("mode", ExecutionMode)
def test_an_interrupt_stays_one(mode: ExecutionMode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        onnxruntime_library.OnnxRuntimeModel, "compute", _raises(KeyboardInterrupt())
    )
    options = _limited(execution_mode=mode, inter_op_num_threads=2, enable_profiling=True)
    with _session() as plain, pytest.raises(KeyboardInterrupt):
        plain.run(None, _feeds())
    with _session(options=options) as session, pytest.raises(KeyboardInterrupt):
        session.run(None, _feeds())


def test_a_failure_names_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnxruntime_library.OnnxRuntimeModel, "compute", _MANNERS["raises"][0])
    with (
        _session() as session,
        pytest.raises(RunError, match=r"node 'CPU__0' \(CPU__0\) failed") as caught,
    ):
        session.run(None, _feeds())
    assert caught.value.node_name == "CPU__0"
    assert "\x1b" not in str(caught.value)
