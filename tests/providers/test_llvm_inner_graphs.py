"""Machine code inside of branches and loop bodies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

from ortpkg import InferenceSession, SessionOptions
from ortpkg.foundations.ep_names import CPU_EP, LLVM_EP

_HEAD = '<ir_version: 10, opset_import: ["" : 21]>'
_CHOICE = f"""{_HEAD}
net (float[n, 64] x, bool c) => (float[n, 64] z) {{
    a = Mod<fmod = 1>(x, x)
    z = If (c) <
        then_branch = yes () => (float[n, 64] t) {{
            t0 = MatMul(x, w)  t1 = Softmax(t0)  t2 = Erf(t1)  t = Add(t2, x) }},
        else_branch = no () => (float[n, 64] e) {{
            e0 = Softmax(x)  e1 = MatMul(e0, w)  e2 = Erf(e1)  e = Sigmoid(e2) }}
    >
}}"""
_GROWING = f"""{_HEAD}
net (float[1, 64] x, int64 count) => (float[k, 64] y) {{
    go = Constant<value = bool {{1}}>()
    y = Loop (count, go, x) <
        body = step (int64 i, bool on, float[m, 64] h) => (bool out, float[l, 64] more) {{
            out = Identity(on)  h1 = MatMul(h, w)  h2 = Softmax(h1)  h3 = Erf(h2)
            more = Concat<axis = 0>(h3, h) }}
    >
}}"""
_SCANNED = f"""{_HEAD}
net (float[1, 64] s, float[5, 1, 64] xs) => (float[1, 64] e, float[5, 1, 64] ys) {{
    e, ys = Scan <num_scan_inputs = 1,
        body = step (float[1, 64] h, float[1, 64] x) => (float[1, 64] g, float[1, 64] y) {{
            p = MatMul(h, w)  q = Erf(p)  r = Softmax(q)  g = Add(r, x)  y = Tanh(g) }}
    > (s, xs)
}}"""


def _model(folder: Path, text: str) -> Path:
    model = onnx.parser.parse_model(text)
    weights = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32) / 8
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    onnx.save(model, folder / "net.onnx")
    return folder / "net.onnx"


def _compiled(session: InferenceSession) -> list[tuple[str, int]]:
    """For each compiled partition its graph, and how many nodes it has."""
    return [
        (partition.graph_path, len(partition.node_names))
        for partition in session.get_plan().partitions
        if partition.provider == LLVM_EP
    ]


def _assert_alike(session: InferenceSession, model: Path, feeds: dict[str, np.ndarray]) -> None:
    expected = InferenceSession(model, providers=[CPU_EP]).run(None, feeds)
    for ours, theirs in zip(session.run(None, feeds), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def _rows(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("rows", [1, 3])
def test_both_branches_of_an_if_on_an_input_are_compiled(tmp_path: Path, rows: int) -> None:
    model = _model(tmp_path, _CHOICE)
    with InferenceSession(model, providers=["llvm", "cpu"]) as session:
        assert _compiled(session) == [("If_1.then_branch", 4), ("If_1.else_branch", 4)]
        for choice in (True, False):
            _assert_alike(session, model, {"x": _rows(rows, 64), "c": np.array(choice)})


def test_a_loop_whose_value_grows_is_compiled_for_every_size(tmp_path: Path) -> None:
    model = _model(tmp_path, _GROWING)
    with InferenceSession(model, providers=["llvm", "cpu"]) as session:
        assert _compiled(session) == [("Loop_1.body", 5)]
        for count in (0, 1, 4):
            _assert_alike(session, model, {"x": _rows(1, 64), "count": np.array(count)})


def test_the_body_of_a_scan_is_compiled(tmp_path: Path) -> None:
    model = _model(tmp_path, _SCANNED)
    with InferenceSession(model, providers=["llvm", "cpu"]) as session:
        assert _compiled(session) == [("Scan_0.body", 5)]
        _assert_alike(session, model, {"s": _rows(1, 64), "xs": _rows(5, 1, 64)})


def test_a_context_model_keeps_what_branches_became_and_none_of_their_weights(
    tmp_path: Path,
) -> None:
    model, context = _model(tmp_path, _CHOICE), tmp_path / "context.onnx"
    options = SessionOptions()
    options.add_session_config_entry("ep.context_enable", "1")
    options.add_session_config_entry("ep.context_file_path", str(context))
    InferenceSession(model, options, providers=["llvm", "cpu"])
    kept = onnx.load(context).graph
    assert [initializer.name for initializer in kept.initializer] == []
    with InferenceSession(context, providers=["llvm", "cpu"]) as session:
        assert [path for path, _ in _compiled(session)] == ["If_1.then_branch", "If_1.else_branch"]
        for choice in (True, False):
            _assert_alike(session, model, {"x": _rows(2, 64), "c": np.array(choice)})


def test_a_body_that_a_call_costs_more_than_it_saves_is_left(tmp_path: Path) -> None:
    text = f"""{_HEAD}
        net (float[2] x, int64 count) => (float[2] y) {{
            go = Constant<value = bool {{1}}>()
            y = Loop (count, go, x) <
                body = step (int64 i, bool on, float[2] h) => (bool out, float[2] more) {{
                    out = Identity(on)  more = Neg(h) }}
            >
        }}"""
    model = tmp_path / "small.onnx"
    onnx.save(onnx.parser.parse_model(text), model)
    with InferenceSession(model, providers=["llvm", "cpu"]) as session:
        assert _compiled(session) == []
