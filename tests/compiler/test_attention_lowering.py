"""Attention and RotaryEmbedding as operations: what they give is what the engine's kernels give."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx.parser
import pytest

from ortpkg.compiler.lowering.operator_lowerings import lower_graph
from ortpkg.compiler.tensor_ir.operations import Attention
from ortpkg.compiler.tensor_ir.tensor_verifier import verify_operations
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.shapes.inference import infer_sizes
from ortpkg.runtime.session.inference_session import InferenceSession
from tests.compiler.reference_program import run_program

Array = npt.NDArray[Any]
_HEADER = '<ir_version: 10, opset_import: ["" : 24, "com.microsoft" : 1]>\n'
_QKV = "float[b, 4, q, 8] x, float[b, h, k, 8] y, float[b, h, k, 6] z"


def _random(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _assert_as_engine(text: str, feeds: dict[str, Array]) -> int:
    """Also returns how many attentions it became."""
    proto = onnx.parser.parse_model(_HEADER + text)
    wanted = InferenceSession(proto.SerializeToString(), providers=["cpu"]).run(None, feeds)
    model = load_model(proto.SerializeToString())
    program = lower_graph(model.graph, infer_sizes(model), "program")
    verify_operations(program.operations)
    made = run_program(program, [feeds[name] for name in model.graph.inputs])
    for one, other in zip(made, wanted, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    return sum(isinstance(each, Attention) for each in program.operations)


def _qkv(batch: int, shared: int, queries: int, keys: int) -> dict[str, Array]:
    return {
        "x": _random(batch, 4, queries, 8),
        "y": _random(batch, shared, keys, 8, seed=1),
        "z": _random(batch, shared, keys, 6, seed=2),
    }


@pytest.mark.parametrize("attributes", ["", "<scale = 0.3, softcap = 2.0>", "<is_causal = 1>"])
@pytest.mark.parametrize(
    ("shared", "queries", "keys"), [(4, 3, 5), (2, 5, 5), (1, 1, 7), (2, 0, 3)]
)
def test_heads_may_share_keys(attributes: str, shared: int, queries: int, keys: int) -> None:
    text = f"""g ({_QKV.replace("h", str(shared))}) => (float[b, 4, q, 6] o)
        {{ o = Attention{attributes}(x, y, z) }}"""
    assert _assert_as_engine(text, _qkv(2, shared, queries, keys)) == 1


@pytest.mark.parametrize("kind", ["bool", "float"])
def test_a_query_that_sees_no_key_gives_zeros(kind: str) -> None:
    text = f"""g ({_QKV.replace("h", "2")}, {kind}[1, 1, q, k] m) => (float[b, 4, q, 6] o)
        {{ o = Attention(x, y, z, m) }}"""
    seen = np.random.default_rng(3).random((1, 1, 3, 5)) < 0.5
    seen[0, 0, 1] = False
    seen[0, 0, 0, 2] = True
    mask = seen if kind == "bool" else np.where(seen, np.float32(0.25), np.float32(-np.inf))
    assert _assert_as_engine(text, {**_qkv(2, 2, 3, 5), "m": mask}) == 1


def test_past_keys_and_values_come_before_new_ones() -> None:
    text = """g (float[b, q, 32] x, float[b, q, 16] y, float[b, q, 12] z,
            float[b, 2, p, 8] pk, float[b, 2, p, 6] pv)
        => (float[b, q, 24] o, float[b, 2, t, 8] k, float[b, 2, t, 6] v)
        { o, k, v = Attention<q_num_heads = 4, kv_num_heads = 2, is_causal = 1>
            (x, y, z, , pk, pv) }"""
    for past in (0, 3):
        feeds = {"x": _random(2, 2, 32), "y": _random(2, 2, 16), "z": _random(2, 2, 12),
                 "pk": _random(2, 2, past, 8), "pv": _random(2, 2, past, 6)}  # fmt: skip
        assert _assert_as_engine(text, feeds) == 1


@pytest.mark.parametrize("interleaved", [0, 1])
def test_features_of_each_token_are_turned_by_the_row_of_its_position(interleaved: int) -> None:
    text = f"""g (float[b, n, 24] x, float[9, 3] c, float[9, 3] s, int64[b, n] p, int64[1] first)
        => (float[b, n, 24] y, float[b, n, 24] z) {{
        y = RotaryEmbedding<num_heads = 3, rotary_embedding_dim = 6, interleaved = {interleaved}>
            (x, c, s, p)
        z = com.microsoft.RotaryEmbedding<num_heads = 3, rotary_embedding_dim = 6,
            interleaved = {interleaved}>(x, first, c, s) }}"""
    feeds = {"x": _random(2, 4, 24), "c": _random(9, 3), "s": _random(9, 3, seed=1),
             "p": np.array([[0, 3, 8, 1], [2, 2, 0, 5]]), "first": np.array([4])}  # fmt: skip
    assert _assert_as_engine(text, feeds) == 0
