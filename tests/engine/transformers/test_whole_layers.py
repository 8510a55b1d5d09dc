"""Layers of exported models through all levels: few nodes are left, which compute the same."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from ortpkg.session.inference_session import InferenceSession
from ortpkg.session.options import GraphOptimizationLevel, SessionOptions
from tests.engine.transformers.transformation import feeds_for, named_constants, parse

OPSET = '<ir_version: 10, opset_import: ["" : 18]>\n'
GELU = (
    "{x}d = Div({x}, root2) {x}e = Erf({x}d) {x}f = Add({x}e, one) {x}h = Mul(half, {x}f) {y} ="
    " Mul({x}, {x}h)"
)
TANH_GELU = """{x}h = Mul({x}, half) {x}p = Pow({x}, three) {x}c = Mul({x}p, cube) {x}s = Add({x}, {x}c)
    {x}m = Mul({x}s, pi) {x}t = Tanh({x}m) {x}o = Add({x}t, one) {y} = Mul({x}h, {x}o)"""
ATTEND = """q4 = Reshape(q, heads) qt = Transpose <perm = [0, 2, 1, 3]> (q4)
    k4 = Reshape(k, heads) kt = Transpose <perm = [0, 2, 3, 1]> (k4)
    v4 = Reshape(v, heads) vt = Transpose <perm = [0, 2, 1, 3]> (v4)
    p = MatMul(qt, kt) s = Mul(p, half) n = Add(s, mask) w = Softmax <axis = -1> (n) o = MatMul(w, vt)
    ot = Transpose <perm = [0, 2, 1, 3]> (o)"""

BERT = f"""{OPSET} g (float[1, length, 8] x, float[1, 1, length, length] mask) => (float[1, length, 8] y) {{
    q0 = MatMul(x, wq) q = Add(q0, bq) k0 = MatMul(x, wk) k = Add(k0, bk) v0 = MatMul(x, wv) v = Add(v0, bv)
    {ATTEND} a = Reshape(ot, joined)
    a0 = MatMul(a, wo) a1 = Add(a0, bo) a2 = Add(a1, x) a3 = LayerNormalization <epsilon = 1e-12> (a2, g1, b1)
    m0 = MatMul(a3, wi) m1 = Add(m0, bi) {GELU.format(x="m1", y="m2")}
    m3 = MatMul(m2, wd) m4 = Add(m3, bd) m5 = Add(m4, a3) y = LayerNormalization <epsilon = 1e-12> (m5, g1, b1)
}}"""
GPT2 = f"""{OPSET} g (float[1, 6, 8] x, float[1, 1, 6, 6] mask) => (float[1, 6, 8] y) {{
    l0 = LayerNormalization <axis = -1> (x, g1, b1) l1 = Reshape(l0, rows) l2 = Gemm(l1, wqkv, bqkv)
    l3 = Reshape(l2, wide) q, k, v = Split <axis = 2, num_outputs = 3> (l3)
    {ATTEND} a = Reshape(ot, rows)
    a0 = Gemm(a, wo, bo) a1 = Reshape(a0, back) a2 = Add(a1, x) a3 = LayerNormalization <axis = -1> (a2, g1, b1)
    m0 = Reshape(a3, rows) m1 = Gemm(m0, wi, bi) m2 = Reshape(m1, inner) {TANH_GELU.format(x="m2", y="m3")}
    m4 = Reshape(m3, deep) m5 = Gemm(m4, wd, bd) m6 = Reshape(m5, back) y = Add(a2, m6)
}}"""
VIT = f"""{OPSET} g (float[1, 6, 8] x, float[1, 1, 6, 6] mask) => (float[1, 6, 8] y) {{
    l0 = LayerNormalization <axis = -1> (x, g1, b1)
    q0 = MatMul(l0, wq) q = Add(q0, bq) k0 = MatMul(l0, wk) k = Add(k0, bk) v0 = MatMul(l0, wv) v = Add(v0, bv)
    {ATTEND} a = Reshape(ot, joined)
    a0 = MatMul(a, wo) a1 = Add(a0, bo) a2 = Add(a1, x) a3 = LayerNormalization <axis = -1> (a2, g1, b1)
    m0 = MatMul(a3, wi) m1 = Add(m0, bi) {GELU.format(x="m1", y="m2")} m3 = MatMul(m2, wd) m4 = Add(m3, bd)
    y = Add(m4, a2)
}}"""
LAYERS = {
    "BERT": (
        BERT,
        {"Attention": 1, "MatMul": 3, "SkipLayerNormalization": 2, "BiasGelu": 1},
    ),
    "GPT-2": (
        GPT2,
        {"LayerNormalization": 1, "Attention": 1, "SkipLayerNormalization": 1, "Gemm": 3, "FastGelu": 1, "Add": 1},
    ),
    "ViT": (
        VIT,
        {"LayerNormalization": 1, "Attention": 1, "MatMul": 2, "SkipLayerNormalization": 1, "BiasGelu": 1, "Gemm": 1,
         "Add": 1},
    ),
}  # fmt: skip


def weights(text: str) -> dict[str, Any]:
    """The constants of a layer of eight features in four heads."""
    generator = np.random.default_rng(2)
    shapes = {
        "wq": (8, 8), "wk": (8, 8), "wv": (8, 8), "wo": (8, 8), "wi": (8, 12), "wd": (12, 8), "wqkv": (8, 24),
        "bq": (8,), "bk": (8,), "bv": (8,), "bo": (8,), "bi": (12,), "bd": (8,), "bqkv": (24,), "g1": (8,), "b1": (8,),
    }  # fmt: skip
    arrays: dict[str, Any] = {
        name: generator.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()
    }
    numbers = {
        "half": 0.5,
        "one": 1,
        "root2": 2**0.5,
        "three": 3,
        "cube": 0.044715,
        "pi": (2 / np.pi) ** 0.5,
    }
    arrays |= {name: np.float32(value) for name, value in numbers.items()}
    targets = {
        "heads": [1, -1, 4, 2], "joined": [1, -1, 8], "rows": [-1, 8], "wide": [1, 6, 24], "back": [1, 6, 8],
        "inner": [1, 6, 12], "deep": [-1, 12],
    }  # fmt: skip
    arrays |= {name: np.array(target) for name, target in targets.items()}
    return named_constants(arrays, text)


def session(data: bytes, level: GraphOptimizationLevel) -> InferenceSession:
    return InferenceSession(data, SessionOptions(graph_optimization_level=level))


@pytest.mark.parametrize(("text", "left"), LAYERS.values(), ids=LAYERS)
@pytest.mark.requirement("D03")
def test_a_transformer_layer_becomes_few_nodes(text: str, left: dict[str, int]) -> None:
    model = parse(text, weights(text))
    feeds = feeds_for(model, symbols=6)
    data = model.SerializeToString()

    plain = session(data, GraphOptimizationLevel.ORT_DISABLE_ALL)
    fused = session(data, GraphOptimizationLevel.ORT_ENABLE_ALL)

    for expected, actual in zip(plain.run(None, feeds), fused.run(None, feeds), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)
    found = Counter(
        node.op_type for node in fused.get_plan().graph.nodes if node.op_type != "Reshape"
    )
    assert found == left
