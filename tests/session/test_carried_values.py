"""Values that a loop's body hands through from one iteration to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import ortpkg
from ortpkg.runtime.engine import executable_graph
from ortpkg.runtime.kernels.op_kernel import Value
from tests.session.conftest import model_of, options_of, reference

_LOOP = """g (int64 n, float[N] x) => (float[N] y, float[M, N] z) {
    y, z = Loop <body = b (int64 i, bool c, float[N] v) => (bool go, float[N] w, float[N] e)
        { go = Identity(c) w = Identity(v) e = Neg(w) }> (n, , x) }"""
_SCAN = """g (float[N] x, float[M, N] r) => (float[N] y, float[M, N] z) {
    y, z = Scan <num_scan_inputs = 1, body = b (float[N] v, float[N] e) => (float[N] w, float[N] d)
        { w = Identity(v) d = Sub(e, w) }> (x, r) }"""
_NESTED = """g (int64 n, float[N] x) => (float[N] y) {
    y = Loop <body = b (int64 i, bool c, float[N] v) => (bool go, float[N] w) {
        go = Identity(c)
        w = Loop <body = b2 (int64 j, bool c2, float[N] v2) => (bool go2, float[N] w2)
            { go2 = Identity(c2) w2 = Identity(v2) }> (n, , v) }> (n, , x) }"""


class Bodies:
    """What bodies were fed and gave, by the number of the run."""

    def __init__(self) -> None:
        self.runs: list[tuple[Sequence[Value], Sequence[Value]]] = []

    def carried(self) -> list[bool]:
        """Return for each run whether a value that was fed is an output, the same array."""
        return [
            any(value is result for value in feeds for result in results if np.ndim(result))
            for feeds, results in self.runs
        ]


@pytest.fixture
def bodies(monkeypatch: pytest.MonkeyPatch) -> Bodies:
    seen, run = Bodies(), executable_graph._run_subgraph

    def watched(*arguments: Any) -> list[Value]:
        results = run(*arguments)
        seen.runs.append((arguments[3], results))
        return results

    monkeypatch.setattr(executable_graph, "_run_subgraph", watched)
    return seen


def run_on_numpy(text: str, feeds: Mapping[str, Any]) -> list[Any]:
    session = ortpkg.InferenceSession(
        model_of(text).SerializeToString(), options_of(), providers=["CPUExecutionProvider"]
    )
    with session:
        return list(session.run(None, dict(feeds)))


X = np.arange(4, dtype=np.float32)


@pytest.mark.parametrize(
    ("text", "feeds"),
    [(_LOOP, {"n": np.array(3), "x": X}), (_SCAN, {"x": X, "r": np.ones((3, 4), np.float32)})],
)
def test_a_value_that_the_body_hands_through_is_not_copied(
    bodies: Bodies, text: str, feeds: dict[str, Any]
) -> None:
    before = {name: value.copy() for name, value in feeds.items()}
    y, z = run_on_numpy(text, feeds)
    assert bodies.carried() == [True] * 3
    np.testing.assert_array_equal(y, X)
    np.testing.assert_array_equal(z, -np.broadcast_to(X, z.shape) + (text is _SCAN))
    y[:] = z[:] = 7  # what a session returns is its caller's
    for name, value in feeds.items():
        np.testing.assert_array_equal(value, before[name])


@pytest.mark.parametrize(
    "node",
    [
        "w = Dropout(v)",
        "w = Cast<to = 1>(v)",
        "w = Sum(v)",
        "w = Mul(v, one)",
        "w = Transpose<perm = [0]>(v)",
    ],
)
def test_a_value_that_a_node_without_effect_hands_through_is_not_copied(
    bodies: Bodies, node: str
) -> None:
    text = f"""g (int64 n, float[N] x) => (float[N] y) <float one = {{1.0}}> {{
        y = Loop <body = b (int64 i, bool c, float[N] v) => (bool go, float[N] w)
            {{ go = Identity(c) {node} }}> (n, , x) }}"""
    (y,) = run_on_numpy(text, {"n": np.array(3), "x": X})
    assert bodies.carried() == [True] * 3
    np.testing.assert_array_equal(y, X)
    assert not np.may_share_memory(y, X)


def test_a_value_that_two_loops_hand_through_is_not_copied_by_the_bodies(bodies: Bodies) -> None:
    (y,) = run_on_numpy(_NESTED, {"n": np.array(2), "x": X})
    inner = [
        carried
        for carried, run in zip(bodies.carried(), bodies.runs, strict=True)
        if len(run[1]) == 2
    ]
    assert inner.count(True) >= 4
    np.testing.assert_array_equal(y, X)
    assert not np.may_share_memory(y, X)


@pytest.mark.parametrize(
    "nodes",
    [
        "w = Identity(v) u = Identity(v) s = Identity(v)",  # three outputs, one value
        "w = Identity(t) u = Identity(v) s = Identity(t)",  # values that change places
        "w = Identity(v) u = Exp(t) s = Add(v, u)",
        "w = Neg(v) u = Identity(v) s = Identity(v)",  # the value of the iteration before
    ],
)
def test_values_that_share_memory_inside_of_a_loop_are_apart_behind_it(nodes: str) -> None:
    text = f"""g (int64 n, bool on, float[N] x) => (float[N] y, float[N] z, float[M, N] c) {{
        y0, z0, c = Loop <body = b (int64 i, bool k, float[N] v, float[N] t) =>
            (bool go, float[N] w, float[N] u, float[N] s) {{ go = Identity(k) {nodes} }}>
            (n, on, x, x)
        y = Exp(y0) z = Neg(z0) }}"""
    for count in (0, 1, 2, 3):
        feeds = {"n": np.array(count), "on": np.array(True), "x": X.copy()}
        results = run_on_numpy(text, feeds)
        expected = reference(text, feeds) if count else [np.exp(X), -X, np.empty((0, 0))]
        for value, right in zip(results, expected, strict=True):
            np.testing.assert_allclose(value, right, rtol=1e-6)
        np.testing.assert_array_equal(feeds["x"], X)


def test_slices_of_a_scan_that_the_body_hands_on_are_the_callers_own() -> None:
    text = """g (float[N] x, float[M, N] r) => (float[N] y, float[M, N] z) {
        y, z = Scan <num_scan_inputs = 1, body = b (float[N] v, float[N] e) =>
            (float[N] w, float[N] d) { w = Identity(e) d = Identity(v) }> (x, r) }"""
    rows = np.arange(12, dtype=np.float32).reshape(3, 4)
    y, z = run_on_numpy(text, {"x": X, "r": rows})
    np.testing.assert_array_equal(y, rows[-1])
    np.testing.assert_array_equal(z, [X, *rows[:-1]])
    assert not np.may_share_memory(y, rows)
