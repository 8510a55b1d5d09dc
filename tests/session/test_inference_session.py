from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ortpkg.foundations.errors import (
    CancelledError,
    InvalidSessionOptionError,
    KernelNotFoundError,
    LimitExceededError,
    RunError,
    SessionError,
    StatusCode,
    UnknownExecutionProviderError,
    UsageError,
)
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import (
    ExecutionMode,
    GraphOptimizationLevel,
    RunOptions,
    SessionOptions,
)
from tests.session.conftest import (
    COUNTING_LOOP,
    ENDLESS_LOOP,
    RESIDUAL,
    assert_as_reference,
    model_of,
    options_of,
    reference,
    session_of,
)

rng = np.random.default_rng(0)


def batch(size: int) -> dict[str, Any]:
    return {"x": rng.standard_normal((size, 8), dtype=np.float32)}


OPTIONS = {
    "default": {},
    "no optimization": {"graph_optimization_level": GraphOptimizationLevel.ORT_DISABLE_ALL},
    "no pattern": {"enable_mem_pattern": False},
    "no reuse": {"enable_mem_reuse": False},
    "neither": {"enable_mem_pattern": False, "enable_mem_reuse": False},
    "no arena": {"enable_cpu_mem_arena": False},
    "parallel": {"execution_mode": ExecutionMode.ORT_PARALLEL, "inter_op_num_threads": 3},
    "profiled": {"enable_profiling": True},
    "one thread": {"intra_op_num_threads": 1},
}


@pytest.mark.requirement("M16")
@pytest.mark.requirement("P02")
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_agrees_with_the_reference_whatever_the_options(options: dict[str, Any]) -> None:
    assert_as_reference(RESIDUAL, batch(5), **options)


@pytest.mark.requirement("M21")
def test_dynamic_shapes_stay_right_when_they_change() -> None:
    with session_of(RESIDUAL) as session:
        for size in [1, 4, 1, 9, 4, 1, 0, 2, *range(3, 14), 1]:
            feeds = batch(size)
            np.testing.assert_allclose(
                session.run(None, feeds)[0], reference(RESIDUAL, feeds)[0], rtol=1e-5
            )


@pytest.mark.requirement("M17")
def test_second_run_of_a_shape_computes_in_one_block() -> None:
    with session_of(RESIDUAL) as session:
        pool = session._state.executable.pool
        assert pool is not None
        feeds = batch(5)
        session.run(None, feeds)
        entry = pool.find((5,))
        assert entry is not None
        assert 0 < entry.patterns.peak_size <= 4 * 192
        session.run(None, feeds)
        first = pool.take(entry)
        assert any(view is not None for view in first.views)


def test_static_shapes_have_their_pattern_at_initialization() -> None:
    with session_of(RESIDUAL.replace("N,", "3,")) as session:
        executable = session._state.executable
        assert executable.size_classes is None
        assert executable.pool is not None
        assert executable.pool.find(()) is not None


@pytest.mark.requirement("D09")
@pytest.mark.requirement("D10")
@pytest.mark.parametrize(
    "options", [OPTIONS["default"], OPTIONS["parallel"]], ids=["sequential", "parallel"]
)
def test_many_threads_on_one_session_get_their_own_answers(options: dict[str, Any]) -> None:
    feeds = [batch(size) for size in (3, 3, 7, 7, 3, 2, 3, 7)]
    expected = [reference(RESIDUAL, feed)[0] for feed in feeds]
    with session_of(RESIDUAL, **options) as session, ThreadPoolExecutor(8) as threads:
        for _ in range(10):
            for ours, theirs in zip(
                threads.map(lambda feed: session.run(None, feed)[0], feeds), expected, strict=True
            ):
                np.testing.assert_allclose(ours, theirs, rtol=1e-5)


@pytest.mark.parametrize(
    "options", [OPTIONS["default"], OPTIONS["neither"]], ids=["default", "plain"]
)
def test_outputs_belong_to_the_caller(options: dict[str, Any]) -> None:
    text = """g (float[4] x) => (float[4] y, float[4] same, float[4] w, float[2,2] view)
    <float[4] w = {1,2,3,4}, int64[2] shape = {2, 2}>
    { a = Add(x, w)  y = Relu(a)  same = Identity(x)  view = Reshape(a, shape) }"""
    x = np.array([1, -9, 3, 4], np.float32)
    with session_of(text, **options) as session:
        first = session.run(None, {"x": x})
        kept = [value.copy() for value in first]
        for value in first:
            value[...] = 77
        second = session.run(None, {"x": x})
    assert x.tolist() == [1, -9, 3, 4]
    for before, after in zip(kept, second, strict=True):
        np.testing.assert_array_equal(before, after)


def test_output_lists_are_not_changed_by_the_next_run() -> None:
    with session_of(RESIDUAL) as session:
        first = session.run(None, batch(4))[0]
        kept = first.copy()
        session.run(None, batch(4))
    np.testing.assert_array_equal(first, kept)


def test_runs_only_what_is_asked_for_by_name() -> None:
    with session_of(
        "g (float[2] x) => (float[2] y, float[2] z) { y = Neg(x) z = Abs(x) }"
    ) as session:
        outputs = session.run(["z"], {"x": np.array([-1, 2], np.float32)})
    assert [output.tolist() for output in outputs] == [[1, 2]]


def test_unknown_output_is_an_error_with_a_suggestion() -> None:
    with (
        session_of(RESIDUAL) as session,
        pytest.raises(UsageError, match=r"no output 'yy' \(did you mean 'y'\?\)"),
    ):
        session.run(["yy"], batch(1))


# --- control flow ---------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 5])
def test_loop_runs_with_captured_values(count: int) -> None:
    feeds = {"count": np.array(count), "first": np.array(True), "start": np.zeros(2, np.float32)}
    with session_of(COUNTING_LOOP) as session:
        for _ in range(2):
            last, seen = session.run(None, feeds)
    assert last.tolist() == [count, 2 * count]
    assert seen.tolist() == [[i * i, 4.0 * i * i] for i in range(1, count + 1)]


@pytest.mark.parametrize("flag", [True, False])
def test_if_runs_the_branch_that_the_condition_means(flag: bool) -> None:
    text = """g (bool flag, float[3] x) => (float[3] y) {
        a = Neg(x)
        b = If (flag) <then_branch = t () => (float[3] r) { r = Add(a, x) },
                       else_branch = e () => (float[3] r) { r = Mul(a, x) }>
        y = Add(b, a)
    }"""
    assert_as_reference(text, {"flag": np.array(flag), "x": np.array([1, 2, 3], np.float32)})


def test_branch_may_hand_back_an_outer_value() -> None:
    text = """g (bool flag, float[3] x) => (float[3] y, float[3] z) {
        a = Neg(x)
        b = If (flag) <then_branch = t () => (float[3] r) { r = Identity(a) },
                       else_branch = e () => (float[3] r) { r = Abs(a) }>
        y = Relu(b)
        z = Sqrt(a)
    }"""
    assert_as_reference(text, {"flag": np.array(True), "x": np.array([-1, -4, 9], np.float32)})


def test_values_reach_graphs_inside_graphs() -> None:
    text = """g (bool flag, float[2] x) => (float[2] y) {
        a = Neg(x)
        y = If (flag) <
            then_branch = t () => (float[2] r) {
                r = If (flag) <then_branch = tt () => (float[2] s) { s = Add(a, x) },
                               else_branch = te () => (float[2] s) { s = Abs(a) }>
            },
            else_branch = e () => (float[2] r) { r = Abs(a) }>
    }"""
    assert_as_reference(text, {"flag": np.array(True), "x": np.array([1, 2], np.float32)})


def test_scan_runs() -> None:
    text = """g (float[2] start, float[5,2] x) => (float[2] last, float[5,2] sums) {
        last, sums = Scan <num_scan_inputs = 1, body = body (float[2] s, float[2] v) => (float[2] t, float[2] u) {
            t = Add(s, v)
            u = Identity(t)
        }> (start, x)
    }"""
    assert_as_reference(
        text, {"start": np.zeros(2, np.float32), "x": np.arange(10, dtype=np.float32).reshape(5, 2)}
    )


def test_sequence_in_and_out() -> None:
    text = """g (seq(float[N]) s, float[N] x) => (seq(float[N]) t, float[N] y) {
        a = Neg(x)
        t = SequenceInsert(s, a)
        b = Relu(a)
        c = Relu(b)
        y = Add(b, c)
    }"""
    with session_of(text) as session:
        for _ in range(3):
            x = np.array([-1, 2], np.float32)
            sequence, y = session.run(None, {"s": [np.ones(3, np.float32)], "x": x})
            assert [element.tolist() for element in sequence] == [[1, 1, 1], [1, -2]]
            assert y.tolist() == [2, 0]


# --- limits ---------------------------------------------------------------------------------------


def test_model_that_asks_for_too_much_memory_is_stopped_before_it_allocates() -> None:
    with (
        session_of("g (int64[1] n) => (float[M] y) { y = ConstantOfShape(n) }") as session,
        pytest.raises(
            LimitExceededError, match=r"node '.*' \(ConstantOfShape\): the run asks for 4\.0 TB"
        ),
    ):
        session.run(None, {"n": np.array([10**12])})


def test_fixed_shape_that_is_too_large_is_stopped_too() -> None:
    text = """g (float[1] x) => (float[1] y) <int64[2] n = {1000000, 1000000}>
    { a = Expand(x, n)  b = Neg(a)  y = ReduceMax<keepdims = 0>(b) }"""
    with session_of(text) as session, pytest.raises(LimitExceededError, match="asks for") as caught:
        session.run(None, {"x": np.zeros(1, np.float32)})
    assert caught.value.limit == "memory"


def test_memory_limit_of_the_run_counts_what_lives_at_the_same_time() -> None:
    text = "g (float[N] x) => (float[N] y) { a = Exp(x) b = Tan(a) c = Mul(a, b) y = Add(c, x) }"
    x = {"x": np.zeros(1 << 18, np.float32)}
    with session_of(text) as session:
        for _ in range(3):
            session.run(None, x, RunOptions(memory_limit_nbytes=4 << 20))
        with pytest.raises(LimitExceededError, match="memory limit of 1 MiB"):
            session.run(None, x, RunOptions(memory_limit_nbytes=1 << 20))


def test_memory_limit_of_the_run_counts_the_weights() -> None:
    ones = ", ".join(["1"] * 65536)
    text = (
        f"g (float[1] x) => (float[256, 256] y) <float[256, 256] w = {{{ones}}}> {{ y = Add(x,"
        " w) }"
    )
    x = {"x": np.zeros(1, np.float32)}
    with session_of(text) as session:
        session.run(None, x, RunOptions(memory_limit_nbytes=600_000))
        with pytest.raises(LimitExceededError, match=r"beside the 262\.2 kB that it holds"):
            session.run(None, x, RunOptions(memory_limit_nbytes=400_000))
        with pytest.raises(LimitExceededError, match=r"weights take 262\.2 kB, .* of 200 kB"):
            session.run(None, x, RunOptions(memory_limit_nbytes=200_000))


@pytest.mark.parametrize("mode", ExecutionMode, ids=lambda mode: mode.name)
def test_endless_loop_runs_into_the_timeout(mode: ExecutionMode) -> None:
    session = session_of(ENDLESS_LOOP, timeout_s=0.2, execution_mode=mode)
    with (
        session,
        pytest.raises(LimitExceededError, match=r"passed its time limit of 0\.2 s") as caught,
    ):
        session.run(None, {"start": np.ones(2, np.float32)})
    assert caught.value.limit == "time"


def test_run_can_be_ended_from_another_thread() -> None:
    run_options = RunOptions()
    threading.Timer(0.1, setattr, (run_options, "terminate", True)).start()
    with (
        session_of(ENDLESS_LOOP) as session,
        pytest.raises(CancelledError, match="ended by its caller"),
    ):
        session.run(None, {"start": np.ones(2, np.float32)}, run_options)


@pytest.mark.requirement("P16")
@pytest.mark.parametrize(
    "options", [OPTIONS["default"], OPTIONS["parallel"]], ids=["sequential", "parallel"]
)
def test_failing_kernel_is_named(options: dict[str, Any]) -> None:
    text = "g (float[N] x, float[M] z) => (float[K] y) { [adder] y = Add(x, z) }"
    with session_of(text, **options) as session:
        with pytest.raises(RunError, match=r"node 'adder' \(Add\) failed: .*broadcast") as caught:
            session.run(None, {"x": np.ones(3, np.float32), "z": np.ones(4, np.float32)})
        assert (caught.value.code, caught.value.node_name) == (
            StatusCode.RUNTIME_EXCEPTION,
            "adder",
        )
        assert session.run(None, {"x": np.ones(2, np.float32), "z": np.ones(2, np.float32)})[
            0
        ].tolist() == [2, 2]


# --- making a session -----------------------------------------------------------------------------


@pytest.mark.requirement("P14")
def test_cpu_runs_everything_where_nothing_is_named() -> None:
    with session_of(RESIDUAL) as session:
        assert session.get_providers() == ["CPUExecutionProvider"]
        assert {partition.provider for partition in session.get_partitions()} == {
            "CPUExecutionProvider"
        }


def test_unknown_provider_is_an_error_with_a_suggestion() -> None:
    with pytest.raises(
        UnknownExecutionProviderError, match="did you mean 'OpenVINOExecutionProvider'"
    ):
        InferenceSession(
            model_of(RESIDUAL).SerializeToString(),
            providers=["OpenVINOExecutionProvidr"],
            enable_fallback=False,
        )


def test_operator_that_nobody_has_is_an_error_that_says_which() -> None:
    text = "g (float[2] x) => (float[2] y) { [odd] y = com.example.Frobnicate(x) }"
    model = model_of(text)
    model.opset_import.add(domain="com.example", version=3)
    with pytest.raises(KernelNotFoundError) as caught:
        InferenceSession(model.SerializeToString())
    assert "'Frobnicate' of domain 'com.example', opset 3, types (T=float), at node 'odd'" in str(
        caught.value
    )


def test_provider_options_must_fit_the_providers() -> None:
    with pytest.raises(InvalidSessionOptionError, match="2 entries for 1 providers"):
        InferenceSession(
            model_of(RESIDUAL).SerializeToString(), None, ["cpu"], [{}, {}], enable_fallback=False
        )


def test_inputs_and_outputs_are_described() -> None:
    with session_of(RESIDUAL) as session:
        declared = session.get_inputs()[0]
        assert (declared.name, declared.type, declared.shape) == ("x", "tensor(float)", ["N", 8])
        assert [output.name for output in session.get_outputs()] == ["y"]


def test_overridable_initializer_may_be_fed_or_left_out() -> None:
    text = "g (float[2] x, float[2] b = {1, 2}) => (float[2] y) { y = Add(x, b) }"
    x = np.zeros(2, np.float32)
    with session_of(text) as session:
        assert [declared.name for declared in session.get_overridable_initializers()] == ["b"]
        assert session.run(None, {"x": x})[0].tolist() == [1, 2]
        assert session.run(None, {"x": x, "b": x})[0].tolist() == [0, 0]


def test_free_dimension_is_fixed_by_name() -> None:
    options = options_of()
    options.add_free_dimension_override_by_name("N", 3)
    with InferenceSession(model_of(RESIDUAL).SerializeToString(), options) as session:
        assert session.get_inputs()[0].shape == [3, 8]


def test_optimized_model_is_written_and_runs(tmp_path: Path) -> None:
    path = tmp_path / "optimized.onnx"
    feeds = batch(2)
    with session_of(RESIDUAL, optimized_model_filepath=path) as session:
        expected = session.run(None, feeds)
    with InferenceSession(path) as session:
        np.testing.assert_allclose(session.run(None, feeds)[0], expected[0], rtol=1e-6)


def test_profile_is_a_chrome_trace_with_an_event_per_node(tmp_path: Path) -> None:
    options = SessionOptions(enable_profiling=True, profile_file_prefix=str(tmp_path / "profile_"))
    with InferenceSession(model_of(RESIDUAL).SerializeToString(), options) as session:
        session.run(None, batch(2))
        events = json.loads(Path(session.end_profiling()).read_text("utf-8"))
    nodes = [event for event in events if event["cat"] == "Node"]
    assert {event["args"]["op_name"] for event in nodes} >= {"MatMul", "Tanh", "Mul"}
    assert all(
        event["ph"] == "X" and event["args"]["provider"] == "CPUExecutionProvider"
        for event in nodes
    )
    assert {event["name"] for event in events} >= {"session_initialization", "model_run"}


def test_run_async_calls_back_with_outputs_or_error() -> None:
    done = threading.Event()
    calls: list[tuple[int, Any, str]] = []

    def callback(outputs: Any, user_data: Any, error: str) -> None:
        calls.append((len(outputs), user_data, error))
        if len(calls) == 2:
            done.set()

    with session_of(RESIDUAL) as session:
        session.run_async(None, batch(2), callback, "good")
        session.run_async(None, {"x": batch(2)["x"].astype(np.float64)}, callback, "bad")
        assert done.wait(30)
    assert max(calls) == (1, "good", "")
    assert "expected tensor(float)" in min(calls)[2]


def test_closed_session_says_so() -> None:
    session = session_of(RESIDUAL)
    session.close()
    session.close()
    with pytest.raises(SessionError, match="the session is closed"):
        session.run(None, batch(1))


def test_model_without_nodes_runs() -> None:
    with session_of("g (float[2] x) => (float[2] x) { }") as session:
        assert session.run(None, {"x": np.ones(2, np.float32)})[0].tolist() == [1, 1]


def test_long_chain_starts_and_runs() -> None:
    nodes = "\n".join(f"v{i + 1} = Neg(v{i})" for i in range(2000))
    with session_of(f"g (float[4] v0) => (float[4] v2000) {{ {nodes} }}") as session:
        assert session.run(None, {"v0": np.ones(4, np.float32)})[0].tolist() == [1, 1, 1, 1]
