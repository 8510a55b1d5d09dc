"""Runs that OpenVINO refuses, or would compute nonsense of: the numpy engine has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from ortpkg import InferenceSession, SessionOptions
from ortpkg.foundations.errors import RunError

pytest.importorskip("openvino")

OPENVINO = "OpenVINOExecutionProvider"
TABLE = "<float[3,2] table = {1, 2, 3, 4, 5, 6}, int64 zero = {0}, int64 one = {1}>"


def session_of(
    body: str, provider: str = OPENVINO, options: SessionOptions | None = None
) -> InferenceSession:
    text = f'<ir_version: 10, opset_import: ["" : 21]>\ng {body}'
    data = onnx.parser.parse_model(text).SerializeToString()
    return InferenceSession(data, options, providers=[provider])


def are_partitions(session: InferenceSession, count: int) -> bool:
    return [part.provider for part in session._state.partitions] == [OPENVINO] * count


#: Model → feeds that are right, feeds of an index that is out of range, what the error says.
INDICES: dict[str, tuple[str, dict[str, Any], dict[str, Any], str]] = {
    "positions": (
        (
            f"(float[1,S] x) => (float[S,2] y) {TABLE} {{"
            " s = Shape(x) n = Gather(s, one) r = Range(zero, n, one) y = Gather(table, r) }"
        ),
        {"x": np.ones((1, 3), np.float32)},
        {"x": np.ones((1, 5), np.float32)},
        "index 4 is out of range for an axis of size 3",
    ),
    "positions of a mask": (
        (
            f"(bool[1,S] x) => (float[1,S,2] y) {TABLE} {{"
            " m = Cast<to = 6>(x) c = CumSum(m, one) j = Cast<to = 7>(c) y = Gather(table, j) }"
        ),
        {"x": np.array([[True, True]])},
        {"x": np.array([[True, True, True]])},
        "index 3 is out of range for an axis of size 3",
    ),
    "sum": (
        f"(int64[N] x) => (float[N,2] y) {TABLE} {{ j = Add(x, one) y = Gather(table, j) }}",
        {"x": np.array([0, 1])},
        {"x": np.array([0, 2])},
        "index 3 is out of range for an axis of size 3",
    ),
    "an argument, of a smaller table": (
        (
            f"(float[N,4] x) => (float[N,2] y) {TABLE} {{"
            " i = ArgMax<axis = 1, keepdims = 0>(x) y = Gather(table, i) }"
        ),
        {"x": np.eye(4, dtype=np.float32)[:3]},
        {"x": np.eye(4, dtype=np.float32)},
        "index 3 is out of range for an axis of size 3",
    ),
    "a constant, of a free axis": (
        (
            "(float[N,S] x) => (float[N] y) <int64 two = {2}>"
            " { e = Exp(x) t = Concat<axis = 1>(e, e) y = Gather<axis = 1>(t, two) }"
        ),
        {"x": np.ones((2, 2), np.float32)},
        {"x": np.ones((2, 1), np.float32)},
        "index 2 is out of range for an axis of size 2",
    ),
    "along an axis": (
        (
            "(float[3,2] x, int64[K,2] i) => (float[K,2] y)"
            " { e = Exp(x) y = GatherElements<axis = 0>(e, i) }"
        ),
        {"x": np.ones((3, 2), np.float32), "i": np.array([[0, 2]])},
        {"x": np.ones((3, 2), np.float32), "i": np.array([[0, 3]])},
        "index 3 is out of range for an axis of size 3",
    ),
}


@pytest.mark.parametrize("name", INDICES)
def test_an_index_that_is_out_of_range_is_an_error_wherever_it_was_made(name: str) -> None:
    body, right, wrong, message = INDICES[name]
    with session_of(body, "CPUExecutionProvider") as session:
        expected = session.run(None, right)[0]

    with session_of(body) as session:
        np.testing.assert_allclose(session.run(None, right)[0], expected, rtol=1e-6)
        with pytest.raises(RunError, match=message):
            session.run(None, wrong)
        np.testing.assert_allclose(session.run(None, right)[0], expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["positions", "positions of a mask", "a constant, of a free axis"])
def test_indices_that_are_computed_leave_a_model_in_one_piece(name: str) -> None:
    with session_of(INDICES[name][0]) as session:
        assert are_partitions(session, 1)


def test_an_index_is_looked_at_where_the_numpy_engine_may_not_stand_in() -> None:
    body, _, wrong, message = INDICES["positions"]
    options = SessionOptions()
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")

    with (
        session_of(body, options=options) as session,
        pytest.raises(RunError, match=f"'Gather_3' .Gather. failed: {message}"),
    ):
        session.run(None, wrong)


def test_indices_are_looked_at_in_what_comes_from_a_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body, right, wrong, message = INDICES["positions"]
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(tmp_path))
    for _ in range(2):
        options = SessionOptions()
        options.add_session_config_entry("ortpkg.ep_context_cache", str(tmp_path))
        with session_of(body, options=options) as session:
            session.run(None, right)
            with pytest.raises(RunError, match=message):
                session.run(None, wrong)


#: Model → feeds that OpenVINO refuses, or has some number for; numpy has a result.
RESULTS: dict[str, tuple[str, dict[str, Any]]] = {
    **{
        f"{operator}, a window beyond a free axis": (
            (
                f"(float[1,1,H,W] x) => (float[1,1,A,B] y)"
                f" {{ e = Exp(x) y = {operator}<kernel_shape = [3, 3]>(e) }}"
            ),
            {"x": np.ones((1, 1, 2, 5), np.float32)},
        )
        for operator in ("AveragePool", "MaxPool", "LpPool")
    },
    "more padding than there are elements": (
        '(float[N] x, int64[2] p) => (float[M] y) { e = Exp(x) y = Pad<mode = "reflect">(e, p) }',
        {"x": np.arange(3, dtype=np.float32), "p": np.array([3, 3])},
    ),
    "the maximum of nothing": (
        (
            "(float[N,M] x) => (float[N] y) <int64[1] last = {1}>"
            " { e = Exp(x) y = ReduceMax<keepdims = 0>(e, last) }"
        ),
        {"x": np.ones((2, 0), np.float32)},
    ),
    "the mean of nothing": (
        (
            "(float[N,M] x) => (float[N] y) <int64[1] last = {-1}>"
            " { e = Concat<axis = 1>(x, x) y = ReduceMean<keepdims = 0>(e, last) }"
        ),
        {"x": np.ones((2, 0), np.float32)},
    ),
}


@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:invalid value")
@pytest.mark.parametrize("name", RESULTS)
def test_the_numpy_engine_takes_a_run_that_openvino_does_not(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    body, feeds = RESULTS[name]
    with session_of(body, "CPUExecutionProvider") as session:
        expected = session.run(None, feeds)[0]

    with session_of(body) as session:
        assert are_partitions(session, 1)
        results = [session.run(None, feeds)[0] for _ in range(2)]

    for one in results:
        np.testing.assert_array_equal(one, expected)
    assert caplog.text.count("leaves such runs to the numpy engine") == 1


@pytest.mark.parametrize(
    ("body", "feeds"),
    [
        (
            "(float[3] x, int64[2] s) => (float[A,B] y) { e = Exp(x) y = Reshape(e, s) }",
            {"x": np.ones(3, np.float32), "s": np.array([2, 2])},
        ),
        (
            (
                "(float[N,M] x) => (float[N,1] y, int64[N,1] i) <int64[1] k = {1}>"
                " { e = Exp(x) y, i = TopK(e, k) }"
            ),
            {"x": np.ones((2, 0), np.float32)},
        ),
        (
            (
                "(float[1,1,4,4] x, float[1,4] r, int64[1] b) => (float[A,B,C,D] y)"
                " { e = Exp(x) y = RoiAlign(e, r, b) }"
            ),
            {
                "x": np.ones((1, 1, 4, 4), np.float32),
                "r": np.array([[0, 0, 3, 3]], np.float32),
                "b": np.array([1]),
            },
        ),
    ],
    ids=["Reshape", "TopK", "RoiAlign"],
)
def test_an_error_of_a_run_is_that_of_the_numpy_engine(body: str, feeds: dict[str, Any]) -> None:
    with session_of(body, "CPUExecutionProvider") as session, pytest.raises(RunError) as expected:
        session.run(None, feeds)

    with session_of(body) as session:
        assert are_partitions(session, 1)
        with pytest.raises(RunError) as caught:
            session.run(None, feeds)

    assert str(caught.value) == str(expected.value)
