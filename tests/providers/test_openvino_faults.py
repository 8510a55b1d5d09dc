"""What OpenVINO takes of com.microsoft and gets wrong goes to the embedded engine.

What it gets right is left to it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from ortpkg import InferenceSession

pytest.importorskip("openvino")

RNG = np.random.default_rng(5)


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def model_of(body: str) -> bytes:
    text = f'<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>\n{body}'
    return bytes(onnx.parser.parse_model(text).SerializeToString())


GROUPED = """
g (float[B,S,32] x, float[B,1,P,8] k, float[B,1,P,8] v, int32[B] ends, int32[1] total)
=> (float[B,S,16] y, float[B,1,Q,8] k2, float[B,1,Q,8] v2) {
    doubled = Add(x, x)
    y, k2, v2 = com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 1>
        (doubled, , , k, v, ends, total)
}"""
GROUPED_FEEDS = {
    "x": normal(2, 1, 32),
    "k": normal(2, 1, 6, 8),
    "v": normal(2, 1, 6, 8),
    "ends": np.array([3, 2], np.int32),
    "total": np.array([4], np.int32),
}
QUANTIZED = {
    "x": np.array([[0, 90, 255]], np.uint8),
    "s": np.float32(0.1),
    "t": np.float32(0.01),
    "z": np.uint8(100),
}


def rotary(positions: str, half: int, attributes: str) -> str:
    """The cosines and sines are constants, as exporters write them."""
    angles = RNG.uniform(0, 6, (9, half))
    cosines, sines = (
        ", ".join(map(str, function(angles).ravel())) for function in (np.cos, np.sin)
    )
    return f"""g (float[2,2,3,8] x, int64[{positions}] p) => (float[2,2,3,8] y)
    <float[9,{half}] c = {{{cosines}}}, float[9,{half}] s = {{{sines}}}> {{
        y = com.microsoft.RotaryEmbedding <{attributes}> (x, p, c, s)
    }}"""


def rotary_feeds(positions: Any) -> dict[str, Any]:
    return {"x": normal(2, 2, 3, 8), "p": np.array(positions)}


WRONG: dict[str, tuple[str, dict[str, Any]]] = {
    "GroupQueryAttention": (GROUPED, GROUPED_FEEDS),
    "GroupQueryAttention in a branch": (
        """g (bool c, float[B,1,32] x, float[2,1,6,8] k, float[2,1,6,8] v, int32[2] ends, int32[1] total)
        => (float[2,1,16] y) <int64[1] from = {0}, int64[1] to = {16}, int64[1] axis = {2}> {
            y = If (c) <
                then_branch = one () => (float[2,1,16] a) {
                    a, k2, v2 = com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 1>
                        (x, , , k, v, ends, total)
                },
                else_branch = other () => (float[2,1,16] b) { b = Slice(x, from, to, axis) }
            >
        }""",
        GROUPED_FEEDS | {"c": np.array(True)},
    ),
    "RotaryEmbedding from an offset": (rotary("1", 4, "num_heads = 2"), rotary_feeds([4])),
    "RotaryEmbedding of a part": (
        rotary("2,3", 2, "interleaved = 1, num_heads = 2, rotary_embedding_dim = 4"),
        rotary_feeds([[0, 1, 2], [4, 5, 6]]),
    ),
    "FusedGemm": (
        """g (float[2,3] a, float[3,4] b, float[4] c) => (float[2,4] y)
        { y = com.microsoft.FusedGemm <activation = "Tanh"> (a, b, c) }""",
        {"a": normal(2, 3), "b": normal(3, 4), "c": normal(4)},
    ),
    "FusedMatMul": (
        """g (float[3,2,4] a, float[3,2,4] b) => (float[2,3,3] y)
        { y = com.microsoft.FusedMatMul <transBatchA = 1, transBatchB = 1, transB = 1> (a, b) }""",
        {"a": normal(3, 2, 4), "b": normal(3, 2, 4)},
    ),
    "Attention": (
        """g (float[2,3,8] x, float[8,24] w, float[24] b) => (float[2,3,8] y)
        { y = com.microsoft.Attention <num_heads = 2, scale = 0.1> (x, w, b) }""",
        {"x": normal(2, 3, 8), "w": normal(8, 24), "b": normal(24)},
    ),
    "QLinearAdd": (
        """g (uint8[1,3] x, float s, float t, uint8 z) => (uint8[1,3] y)
        { y = com.microsoft.QLinearAdd (x, s, z, x, s, z, t, z) }""",
        QUANTIZED,
    ),
    "QLinearMul": (
        """g (uint8[1,3] x, float s, float t, uint8 z) => (uint8[1,3] y)
        { y = com.microsoft.QLinearMul (x, s, z, x, s, z, t, z) }""",
        QUANTIZED,
    ),
    "QLinearLeakyRelu": (
        """g (uint8[1,3] x, float s, float t, uint8 z) => (uint8[1,3] y)
        { y = com.microsoft.QLinearLeakyRelu <alpha = 0.5> (x, s, z, t, z) }""",
        QUANTIZED,
    ),
}
RIGHT: dict[str, tuple[str, dict[str, Any]]] = {
    "FusedGemm": (
        """g (float[2,3] a, float[3,4] b, float[4] c) => (float[2,4] y)
        { y = com.microsoft.FusedGemm <activation = "Relu"> (a, b, c) }""",
        {"a": normal(2, 3), "b": normal(3, 4), "c": normal(4)},
    ),
    "MultiHeadAttention with its past": (
        """g (float[2,3,8] x, float[2,2,4,4] k, float[2,2,4,4] v)
        => (float[2,3,8] y, float[2,2,7,4] k2, float[2,2,7,4] v2)
        { y, k2, v2 = com.microsoft.MultiHeadAttention <num_heads = 2> (x, x, x, , , , k, v) }""",
        {"x": normal(2, 3, 8), "k": normal(2, 2, 4, 4), "v": normal(2, 2, 4, 4)},
    ),
    "SkipLayerNormalization with its sum": (
        """g (float[2,3,8] x, float[8] g1, float[8] b, float[8] c) => (float[2,3,8] y, float[2,3,8] sum)
        { y, , , sum = com.microsoft.SkipLayerNormalization (x, x, g1, b, c) }""",
        {"x": normal(2, 3, 8), "g1": normal(8), "b": normal(8), "c": normal(8)},
    ),
}


def compute(text: str, feeds: dict[str, Any], provider: str) -> list[Any]:
    with InferenceSession(model_of(text), providers=[provider]) as session:
        return session.run(None, feeds)


def check(name: str, cases: dict[str, tuple[str, dict[str, Any]]]) -> None:
    text, feeds = cases[name]
    found = compute(text, feeds, "OpenVINOExecutionProvider")
    expected = compute(text, feeds, "CPUExecutionProvider")
    for one, other in zip(found, expected, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", WRONG)
def test_what_openvino_gets_wrong_is_computed_elsewhere_and_the_log_says_why(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    check(name, WRONG)

    assert f"it would get com.microsoft:{name.partition(' ')[0]} wrong: " in caplog.text


@pytest.mark.parametrize("name", RIGHT)
def test_what_openvino_gets_right_it_computes(name: str, caplog: pytest.LogCaptureFixture) -> None:
    check(name, RIGHT)

    assert "OpenVINOExecutionProvider" not in caplog.text
