"""com.microsoft operators without schemas in sessions: plans, generation, named errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from ortpkg.foundations.errors import InvalidGraphError, RunError
from ortpkg.runtime.session.inference_session import InferenceSession
from tests.session.conftest import options_of

RNG = np.random.default_rng(4)
HEADER = '<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>\n'
#: One decoder layer's attention: packed projections, rotary positions, caches that grow with each
#: call.
DECODER = """
g (float[B,L,32] x, float[B,2,P,8] past_key, float[B,2,P,8] past_value, int32[B] seqlens, int32[1] total,
   float[32,64] w, float[32,32] back, float[64,4] cosines, float[64,4] sines)
=> (float[B,L,32] y, float[B,2,T,8] present_key, float[B,2,T,8] present_value) {
    packed = MatMul(x, w)
    [attention] a, present_key, present_value = com.microsoft.GroupQueryAttention
        <num_heads = 4, kv_num_heads = 2, local_window_size = 6>
        (packed, , , past_key, past_value, seqlens, total)
    b = MatMul(a, back)
    c = Relu(b)
    y = Add(c, x)
}
"""


def model_of(text: str) -> bytes:
    return bytes(onnx.parser.parse_model(HEADER + text).SerializeToString())


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


WEIGHTS = {
    "w": normal(32, 64),
    "back": normal(32, 32),
    "cosines": normal(64, 4),
    "sines": normal(64, 4),
}


def step(new: int, ends: list[int], key: Any, value: Any) -> dict[str, Any]:
    lengths = {
        "seqlens": np.array(ends, np.int32) - np.int32(1),
        "total": np.array([max(ends)], np.int32),
    }
    return {
        "x": normal(len(ends), new, 32),
        "past_key": key,
        "past_value": value,
        **lengths,
        **WEIGHTS,
    }


@pytest.mark.requirement("M21")
@pytest.mark.parametrize(
    "options", [{}, {"enable_mem_pattern": False}, {"enable_mem_reuse": False}]
)
def test_a_cache_that_grows_with_each_token_stays_right(options: dict[str, Any]) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    peer = onnxruntime.InferenceSession(model_of(DECODER), providers=["CPUExecutionProvider"])
    key = value = np.zeros((3, 2, 0, 8), np.float32)
    ends = [5, 3, 4]
    with InferenceSession(model_of(DECODER), options_of(**options)) as session:
        feeds = step(5, ends, key, value)
        for _ in range(6):
            found, expected = session.run(None, feeds), peer.run(None, feeds)
            rows = [slice(0, end if feeds["x"].shape[1] > 1 else 1) for end in ends]
            for row, own in enumerate(rows):  # a prompt's padding does not count
                np.testing.assert_allclose(
                    found[0][row, own], expected[0][row, own], rtol=1e-4, atol=1e-4
                )
            for one, other in zip(found[1:], expected[1:], strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
            ends = [end + 1 for end in ends]
            feeds = step(1, ends, found[1], found[2])


@pytest.mark.parametrize("last", ["Neg(past)", "Neg(key)"])
def test_a_cache_that_somebody_else_reads_is_not_written(last: str) -> None:
    """One intermediate is the past of keys and of values, and perhaps read again afterwards."""
    text = f"""
    g (float[1,1,64] x, float[1,2,6,8] key, int32[1] seqlens, int32[1] total) => (float[1,1,32] y, float[1,2,6,8] z) {{
        past = Neg(key)
        y, present_key, present_value = com.microsoft.GroupQueryAttention
            <num_heads = 4, kv_num_heads = 2> (x, , , past, past, seqlens, total)
        z = {last}
    }}
    """
    onnxruntime = pytest.importorskip("onnxruntime")
    peer = onnxruntime.InferenceSession(model_of(text), providers=["CPUExecutionProvider"])
    feeds = {"x": normal(1, 1, 64), "key": normal(1, 2, 6, 8)}
    feeds |= {"seqlens": np.array([3], np.int32), "total": np.array([4], np.int32)}
    with InferenceSession(model_of(text), options_of()) as session:
        for _ in range(3):
            for one, other in zip(session.run(None, feeds), peer.run(None, feeds), strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


FAILING: dict[str, tuple[str, dict[str, Any], str]] = {
    "GroupQueryAttention": (
        DECODER,
        step(1, [3], np.zeros((1, 2, 1, 8), np.float32), np.zeros((1, 2, 1, 8), np.float32)),
        r"'attention' \(GroupQueryAttention\) failed: seqlens_k\[0\]=2 does not fit",
    ),
    "NhwcMaxPool": (
        """g (uint8[1,N,4,2] x) => (uint8[1,M,1,2] y)
        { [pool] y = com.microsoft.NhwcMaxPool <kernel_shape = [5, 5]> (x) }""",
        {"x": np.zeros((1, 3, 4, 2), np.uint8)},
        r"'pool' \(NhwcMaxPool\) failed: .* does not fit an axis of 3",
    ),
    "QLinearAveragePool": (
        """g (uint8[1,2,N] x, float[M] s) => (uint8[1,2,K] y)
        { [mean] y = com.microsoft.QLinearAveragePool <kernel_shape = [2]> (x, s, , s) }""",
        {"x": np.zeros((1, 2, 3), np.uint8), "s": np.ones(2, np.float32)},
        r"'mean' \(QLinearAveragePool\) failed: .* one scale",
    ),
    "GatherBlockQuantized": (
        """g (uint8[4,16] x, int64[N] i, float[4,M] s) => (float[N,32] y)
        { [rows] y = com.microsoft.GatherBlockQuantized <block_size = 16> (x, i, s) }""",
        {
            "x": np.zeros((4, 16), np.uint8),
            "i": np.zeros(1, np.int64),
            "s": np.ones((4, 3), np.float32),
        },
        r"'rows' \(GatherBlockQuantized\) failed: scales .* have shape \(4, 2\), not \(4, 3\)",
    ),
    "NGramRepeatBlock": (
        """g (int64[1,N] i, float[1,4] s) => (float[1,4] y)
        { [block] y = com.microsoft.NGramRepeatBlock <ngram_size = 1> (i, s) }""",
        {"i": np.full((1, 2), 7), "s": np.zeros((1, 4), np.float32)},
        r"'block' \(NGramRepeatBlock\) failed: token 7 is none of the vocabulary of 4",
    ),
}


@pytest.mark.requirement("P16")
@pytest.mark.parametrize("name", FAILING)
def test_a_node_whose_inputs_do_not_fit_is_named(name: str) -> None:
    text, feeds, message = FAILING[name]
    with (
        InferenceSession(model_of(text), options_of()) as session,
        pytest.raises(RunError, match=message),
    ):
        session.run(None, feeds)


def test_a_node_whose_attributes_do_not_fit_is_named_at_start() -> None:
    text = DECODER.replace("num_heads = 4, kv_num_heads = 2", "num_heads = 4, kv_num_heads = 3")
    with pytest.raises(
        InvalidGraphError, match=r"attention.*num_heads=4 is no multiple of kv_num_heads=3"
    ) as caught:
        InferenceSession(model_of(text), options_of())
    assert caught.value.node_name == "attention"


@pytest.mark.parametrize("token_type", [np.int32, np.int64])
def test_embeddings_of_whole_number_tokens_run_in_a_session(token_type: Any) -> None:
    """The operator's element type is that of its tables, not of its first input."""
    text = f"""
    g ({np.dtype(token_type).name}[2,3] ids, float[9,4] words, float[5,4] places, float[4] w, float[4] b)
    => (float[2,3,4] y) {{
        y, mask = com.microsoft.EmbedLayerNormalization <epsilon = 0.125> (ids, , words, places, , w, b)
    }}
    """
    feeds = {"ids": np.array([[0, 8, 3], [1, 1, 2]], token_type)}
    feeds |= {"words": normal(9, 4), "places": normal(5, 4), "w": normal(4), "b": normal(4)}
    total = feeds["words"][feeds["ids"]] + feeds["places"][:3]
    centred = total - total.mean(axis=-1, keepdims=True)
    expected = (
        centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 0.125) * feeds["w"]
        + feeds["b"]
    )
    with InferenceSession(model_of(text), options_of()) as session:
        np.testing.assert_allclose(session.run(None, feeds)[0], expected, rtol=1e-5, atol=1e-6)


#: The same with caches of the window's size, and a mixture of experts behind the attention.
WINDOWED = """
g (float[B,L,32] x, float[B,2,C,8] past_key, float[B,2,C,8] past_value, int32[B] seqlens, int32[1] total,
   float[32,64] w, float[32,3] router, float[3,24,32] first, float[3,32,24] second)
=> (float[B,L,32] y, float[B,2,C,8] present_key, float[B,2,C,8] present_value) {
    packed = MatMul(x, w)
    [attention] a, present_key, present_value = com.microsoft.GroupQueryAttention
        <num_heads = 4, kv_num_heads = 2, local_window_size = 4, sliding_window_cache = 1>
        (packed, , , past_key, past_value, seqlens, total)
    b = Add(a, x)
    routed = MatMul(b, router)
    shape = Constant<value_ints = [-1, 3]>()
    scores = Reshape(routed, shape)
    [experts] y = com.microsoft.MoE <k = 2, activation_type = "silu"> (b, scores, first, , second)
}
"""


@pytest.mark.parametrize("options", [{}, {"enable_mem_pattern": False}, {"execution_mode": 1}])
def test_a_window_and_experts_stay_right_token_after_token(options: dict[str, Any]) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    peer = onnxruntime.InferenceSession(model_of(WINDOWED), providers=["CPUExecutionProvider"])
    experts = {
        "router": normal(32, 3) / 8,
        "first": normal(3, 24, 32) / 8,
        "second": normal(3, 32, 24) / 8,
    }
    key = value = np.zeros((2, 2, 6, 8), np.float32)
    ends = [3, 3]
    with InferenceSession(model_of(WINDOWED), options_of(**options)) as session:
        feeds = step(3, ends, key, value)
        for _ in range(8):
            feeds = {
                name: feeds[name]
                for name in ("x", "past_key", "past_value", "seqlens", "total", "w")
            } | experts
            found, expected = session.run(None, feeds), peer.run(None, feeds)
            np.testing.assert_allclose(found[0], expected[0], rtol=1e-4, atol=1e-3)
            ends = [end + 1 for end in ends]
            feeds = step(1, ends, found[1], found[2])
