"""Each row of the table of what OpenVINO computes otherwise, held against OpenVINO itself.

What a row is about goes to the embedded engine; what OpenVINO gets right is left to it.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from ortpkg import InferenceSession
from ortpkg.foundations.errors import RunError
from ortpkg.runtime.providers.native_library import NativeModel
from ortpkg.runtime.providers.openvino_differences import DIFFERENCES
from tests.providers.openvino_witnesses import ERRORS, HAZARDS, ONNX_WITNESSES, OPSETS, pooled

pytest.importorskip("openvino")

RNG = np.random.default_rng(5)


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


#: Weights of an LSTM, as text.
EIGHT_BY_TWO = "{" + ", ".join(str(number) for number in range(-80, 80, 10)) + "}"


def model_of(body: str, opset: int = 21) -> bytes:
    text = f'<ir_version: 10, opset_import: ["" : {opset}, "com.microsoft" : 1, "ai.onnx.ml" : 3]>\n{body}'
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


#: Row of the table → a model that OpenVINO computes wrong; behind a comma, another one.
WITNESSES: dict[str, tuple[str, dict[str, Any]]] = {
    **ONNX_WITNESSES,
    "largest element of Normalizer": (
        'g (float[2,3] x) => (float[2,3] y) { y = ai.onnx.ml.Normalizer <norm = "MAX"> (x) }',
        {"x": np.array([[1, -4, 2], [-1, -2, -3]], np.float32)},
    ),
    "largest element of Normalizer, by default": (
        "g (float[2,3] x) => (float[2,3] y) { y = ai.onnx.ml.Normalizer(x) }",
        {"x": np.array([[1, -4, 2], [-1, -2, -3]], np.float32)},
    ),
    "groups of MatMulNBits": (
        """g (float[1,32] x, uint8[4,1,16] w, float[4] s, int32[32] groups) => (float[1,4] y) {
            y = com.microsoft.MatMulNBits <K = 32, N = 4, bits = 4, block_size = 32>
                (x, w, s, , groups)
        }""",
        {
            "x": normal(1, 32),
            "w": np.full((4, 1, 16), 0x5A, np.uint8),
            "s": normal(4),
            "groups": np.zeros(32, np.int32),
        },
    ),
    "QLinearAveragePool": (
        """g (uint8[1,4,4,2] x, float s, float t, uint8 z) => (uint8[1,A,B,2] y) {
            y = com.microsoft.QLinearAveragePool <kernel_shape = [2, 2], channels_last = 1>
                (x, s, z, t, z)
        }""",
        QUANTIZED | {"x": RNG.integers(0, 255, (1, 4, 4, 2)).astype(np.uint8)},
    ),
    "quantized arithmetic, QLinearConcat": (
        """g (uint8[1,3] x, float s, float t, uint8 z) => (uint8[1,6] y)
        { y = com.microsoft.QLinearConcat <axis = 1> (t, z, x, s, z, x, s, z) }""",
        QUANTIZED,
    ),
    "GroupQueryAttention": (GROUPED, GROUPED_FEEDS),
    "GroupQueryAttention, in a branch": (
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
    "rotation from an offset": (rotary("1", 4, "num_heads = 2"), rotary_feeds([4])),
    "rotation of a part": (
        rotary("2,3", 2, "interleaved = 1, num_heads = 2, rotary_embedding_dim = 4"),
        rotary_feeds([[0, 1, 2], [4, 5, 6]]),
    ),
    "activations of FusedGemm": (
        """g (float[2,3] a, float[3,4] b, float[4] c) => (float[2,4] y)
        { y = com.microsoft.FusedGemm <activation = "Tanh"> (a, b, c) }""",
        {"a": normal(2, 3), "b": normal(3, 4), "c": normal(4)},
    ),
    "transposed batches of FusedMatMul": (
        """g (float[3,2,4] a, float[3,2,4] b) => (float[2,3,3] y)
        { y = com.microsoft.FusedMatMul <transBatchA = 1, transBatchB = 1, transB = 1> (a, b) }""",
        {"a": normal(3, 2, 4), "b": normal(3, 2, 4)},
    ),
    "lengths of DynamicQuantizeLSTM": (
        f"""g (float[T,B,2] x, int32[B] l) => (float[T,1,B,2] y, float[1,B,2] h, float[1,B,2] c)
        <int8[1,2,8] w = {EIGHT_BY_TWO}, int8[1,2,8] r = {EIGHT_BY_TWO}, float[1] s = {{0.02}},
         int8[1] z = {{0}}> {{
            y, h, c = com.microsoft.DynamicQuantizeLSTM <hidden_size = 2>
                (x, w, r, , l, , , , s, z, s, z)
        }}""",
        {"x": normal(3, 2, 2), "l": np.array([3, 1], np.int32)},
    ),
    "scale of com.microsoft Attention": (
        """g (float[2,3,8] x, float[8,24] w, float[24] b) => (float[2,3,8] y)
        { y = com.microsoft.Attention <num_heads = 2, scale = 0.1> (x, w, b) }""",
        {"x": normal(2, 3, 8), "w": normal(8, 24), "b": normal(24)},
    ),
    "quantized arithmetic, QLinearAdd": (
        """g (uint8[1,3] x, float s, float t, uint8 z) => (uint8[1,3] y)
        { y = com.microsoft.QLinearAdd (x, s, z, x, s, z, t, z) }""",
        QUANTIZED,
    ),
    "quantized arithmetic, QLinearMul": (
        """g (uint8[1,3] x, float s, float t, uint8 z) => (uint8[1,3] y)
        { y = com.microsoft.QLinearMul (x, s, z, x, s, z, t, z) }""",
        QUANTIZED,
    ),
    "quantized arithmetic, QLinearLeakyRelu": (
        """g (uint8[1,3] x, float s, float t, uint8 z) => (uint8[1,3] y)
        { y = com.microsoft.QLinearLeakyRelu <alpha = 0.5> (x, s, z, t, z) }""",
        QUANTIZED,
    ),
}
RIGHT: dict[str, tuple[str, dict[str, Any]]] = {
    "Normalizer": (
        'g (float[2,3] x) => (float[2,3] y) { y = ai.onnx.ml.Normalizer <norm = "L2"> (x) }',
        {"x": np.array([[1, -4, 2], [0, 0, 0]], np.float32)},
    ),
    "a mean of rows, and a constant": pooled(
        "q = ReduceMean <keepdims = 0> (x, middle) y = Add(q, eight)"
    ),
    "a mean that is taken off, and a constant": pooled(
        "q = ReduceMean (x, last) r = Sub(x, q) y = Mul(r, eight)"
    ),
    "a mean and one number": pooled("q = ReduceMean <keepdims = 0> (x, last) y = Mul(q, two)"),
    "nearest pixels of a whole multiple": (
        """g (float[1,3,7,9] x) => (float[A,B,C,D] y) <int64[4] s = {1, 3, 21, 18}>
        { y = Resize <mode = "nearest", nearest_mode = "floor"> (x, , , s) }""",
        {"x": normal(1, 3, 7, 9)},
    ),
    "nearest pixels of a quarter": (
        """g (float[1,3,8,12] x) => (float[A,B,C,D] y) <int64[2] s = {2, 3}>
        { y = Resize <mode = "nearest", axes = [2, 3]> (x, , , s) }""",
        {"x": normal(1, 3, 8, 12)},
    ),
    "nearest pixels of axes whose sizes stay": (
        """g (float[N,3,8,12] x) => (float[A,B,C,D] y) <int64[2] s = {16, 12}, int64[1] zero = {0},
            int64[1] two = {2}> {
            shape = Shape(x) head = Slice(shape, zero, two) all = Concat <axis = 0> (head, s)
            r = Resize <mode = "nearest"> (x, , , all) y = Exp(r)
        }""",
        {"x": normal(2, 3, 8, 12)},
    ),
    "a diagonal of Trilu": (
        "g (float[N,M] x) => (float[N,M] y) <int64 k = {-1}> { y = Trilu(x, k) }",
        {"x": normal(3, 4)},
    ),
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

#: Integers that make shapes and indices alone, beside floats: all of it is OpenVINO's.
WHOLE: dict[str, tuple[str, dict[str, Any]]] = {
    "a shape that is computed": (
        """g (float[N,C,H,W] x) => (float[A,B] y) <int64[1] four = {4}, int64 zero = {0}, int64 two = {2}> {
            shape = Shape(x) n = Gather(shape, zero) m = Gather(shape, two)
            axes = Constant <value_ints = [0]> () nn = Unsqueeze(n, axes) mm = Unsqueeze(m, axes)
            half = Div(mm, four) rest = Constant <value_ints = [-1]> ()
            k = Mul(nn, half) s = Concat <axis = 0> (k, rest) r = Reshape(x, s) y = Exp(r)
        }""",
        {"x": normal(2, 3, 8, 5)},
    ),
    "tokens and their positions": (
        """g (int64[N,S] ids) => (float[N,S,4] y) <float[5,4] table = {"""
        + ", ".join(str(number / 8) for number in range(20))
        + """}, int64 zero = {0}, int64 one = {1}> {
            shape = Shape(ids) s = Gather(shape, one) p = Range(zero, s, one)
            words = Gather(table, ids) places = Gather(table, p) y = Add(words, places)
        }""",
        {"ids": np.array([[1, 4, 2], [0, 3, 3]])},
    ),
    "a slice to the end": (
        """g (float[N,8] x) => (float[N,M] y) <int64[1] from = {2}, int64[1] axis = {1}> {
            to = Constant <value_ints = [9223372036854775807]> ()
            part = Slice(x, from, to, axis) y = Tanh(part)
        }""",
        {"x": normal(2, 8)},
    ),
    "a size that is scaled as a float": (
        """g (float[1,2,H,W] x) => (float[1,2,A,B] y) <float[4] half = {1, 1, 0.5, 0.5}> {
            shape = Shape(x) s = Cast <to = 1> (shape) t = Mul(s, half) u = Floor(t)
            sizes = Cast <to = 7> (u) z = Resize <mode = "linear"> (x, , , sizes) y = Exp(z)
        }""",
        {"x": normal(1, 2, 8, 6)},
    ),
    "Gelu of two operators": (
        """g (float[N,8] x) => (float[N,8] y) <float root = {1.4142135}, float one = {1}, float half = {0.5}> {
            r = Div(x, root) e = Erf(r) s = Add(e, one) p = Mul(x, s) y = Mul(p, half)
        }""",
        {"x": normal(2, 8)},
    ),
    "a deviation by Pow": (
        """g (float[N,8] x) => (float[N,8] y) <float two = {2}, float half = {0.5}, float tiny = {1e-5}, int64[1] last = {1}> {
            m = ReduceMean(x, last) d = Sub(x, m) q = Pow(d, two)
            v = ReduceMean(q, last) s = Add(v, tiny) r = Pow(s, half) y = Div(d, r)
        }""",
        {"x": normal(2, 8)},
    ),
    "bytes of a picture": (
        """g (uint8[N,3] x) => (uint8[N,3] y) <float k = {0.5}> {
            f = Cast <to = 1> (x) h = Mul(f, k) y = Cast <to = 2> (h)
        }""",
        {"x": np.array([[0, 254, 9]], np.uint8)},
    ),
}


def compute(text: str, feeds: dict[str, Any], provider: str, opset: int = 21) -> list[Any]:
    with InferenceSession(
        model_of(text, opset), providers=[provider], allow_fallback=True
    ) as session:
        return session.run(None, feeds)


def compute_by_library(text: str, feeds: dict[str, Any], opset: int) -> list[Any]:
    """The outputs of OpenVINO alone, whatever the table says of the model."""
    from ortpkg.runtime.providers.openvino_library import OpenVinoLibrary

    data = model_of(text, opset)
    graph = onnx.load_model_from_string(data).graph
    inputs, outputs = ([value.name for value in ends] for ends in (graph.input, graph.output))
    model = NativeModel(data=data, inputs=tuple(inputs), outputs=tuple(outputs))
    compiled = OpenVinoLibrary().compile_model(model)
    unwatched: Any = SimpleNamespace(is_watched=False)
    return list(compiled.compute([np.asarray(feeds[name]) for name in inputs], unwatched))


def are_equal(found: list[Any], expected: list[Any]) -> bool:
    return all(
        (one.dtype, one.shape) == (other.dtype, other.shape)
        and np.allclose(one, other, rtol=1e-5, atol=1e-6, equal_nan=True)
        and (one.dtype.kind == "f" or np.array_equal(one, other))
        for one, other in zip(found, expected, strict=True)
    )


def test_every_row_has_a_witness() -> None:
    rows = [row.name for row in DIFFERENCES]

    assert len(set(rows)) == len(rows)
    assert {name.partition(",")[0] for name in (*WITNESSES, *HAZARDS, *ERRORS)} == set(rows)


@pytest.mark.parametrize("name", ERRORS)
def test_the_library_lets_an_error_pass(name: str) -> None:
    """A row whose error OpenVINO raises itself is to go."""
    text, _ = ERRORS[name]
    results = compute_by_library(*ERRORS[name], opset=21)
    outputs = onnx.load_model_from_string(model_of(text, 21)).graph.output
    assert [array.dtype for array in map(np.asarray, results)] == [
        onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type) for value in outputs
    ]


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_that_openvino_lets_pass_is_that_of_the_embedded_engine(
    name: str,
) -> None:
    text, feeds = ERRORS[name]
    with pytest.raises(RunError) as expected:
        compute(text, feeds, "CPUExecutionProvider")

    with pytest.raises(RunError) as caught:
        compute(text, feeds, "OpenVINOExecutionProvider")

    assert str(caught.value) == str(expected.value)


@pytest.mark.parametrize("name", WITNESSES)
def test_the_library_is_wrong(name: str) -> None:
    """A row that OpenVINO gets right is to go, so that OpenVINO is given such nodes again."""
    text, feeds = WITNESSES[name]
    opset = OPSETS.get(name, 21)
    expected = compute(text, feeds, "CPUExecutionProvider", opset)
    try:
        found = compute_by_library(text, feeds, opset)
    except Exception:  # noqa: BLE001 - what it takes and then fails over is wrong, too
        return
    assert not are_equal(found, expected)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", WITNESSES)
def test_what_openvino_gets_wrong_is_computed_elsewhere_and_the_log_says_why(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    text, feeds = WITNESSES[name]
    (row,) = (row for row in DIFFERENCES if row.name == name.partition(",")[0])

    opset = OPSETS.get(name, 21)

    found = compute(text, feeds, "OpenVINOExecutionProvider", opset)

    assert are_equal(found, compute(text, feeds, "CPUExecutionProvider", opset))
    assert f"wrong: {row.behaviour}" in caplog.text


@pytest.mark.parametrize("name", HAZARDS)
@pytest.mark.parametrize("providers", [["OpenVINOExecutionProvider"], None])
def test_what_ends_the_process_there_is_an_error_or_right(
    monkeypatch: pytest.MonkeyPatch, name: str, providers: list[str] | None
) -> None:
    monkeypatch.delenv("ORTPKG_PROVIDERS", raising=False)
    text, feeds = HAZARDS[name]

    with InferenceSession(model_of(text), providers=providers, allow_fallback=True) as session:
        if name.startswith(("indices", "axes")):
            with pytest.raises(RunError, match=r"ind|axis 4 is not in"):
                session.run(None, feeds)
        else:
            (found,) = session.run(None, feeds)
            assert found.tolist() == feeds["x"][4:].tolist()


@pytest.mark.parametrize("name", [*RIGHT, *WHOLE])
def test_what_openvino_gets_right_it_computes(name: str, caplog: pytest.LogCaptureFixture) -> None:
    text, feeds = {**RIGHT, **WHOLE}[name]
    expected = compute(text, feeds, "CPUExecutionProvider")

    with InferenceSession(
        model_of(text), providers=["OpenVINOExecutionProvider"], allow_fallback=True
    ) as session:
        found = session.run(None, feeds)
        partitions = session._state.partitions

    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
    assert "OpenVINOExecutionProvider" not in caplog.text
    assert [each.provider for each in partitions] == ["OpenVINOExecutionProvider"]


def int_model(expression: str, element: str, *, second: bool) -> str:
    inputs = f"{element}[N] x" + (f", {element}[N] y" if second else "")
    return f"g ({inputs}) => ({element}[N] z) {{ z = {expression} }}"


#: What issue reports said: a session that names no provider, and its numbers.
INTEGERS: list[tuple[str, str, list[int], list[int] | None, list[int]]] = [
    ("Div(x, y)", "uint8", [7], [4], [1]),
    ("Add(x, y)", "uint8", [250], [10], [4]),
    ("Div(x, y)", "int8", [-7], [2], [-3]),
    ("Mod(x, y)", "int32", [777777777], [13], [777777777 % 13]),
    ("Sub(x, y)", "int64", [5_000_000_000], [1], [4_999_999_999]),
    ("Add(x, y)", "int64", [5_000_000_000], [1], [5_000_000_001]),
    ("Mul(x, y)", "int64", [5_000_000_000], [3], [15_000_000_000]),
    ("Div(x, y)", "int64", [5_000_000_000], [3], [1_666_666_666]),
    ("Mod(x, y)", "int64", [5_000_000_000], [7], [5_000_000_000 % 7]),
    ("Abs(x)", "int64", [-5_000_000_000], None, [5_000_000_000]),
    ("Sign(x)", "int64", [1 << 40], None, [1]),
    ("Neg(x)", "int64", [5_000_000_000], None, [-5_000_000_000]),
    ("Max(x, y)", "uint32", [4_000_000_000], [1], [4_000_000_000]),
    ("Max(x, y)", "int64", [5_000_000_000], [1], [5_000_000_000]),
    ("Min(x, y)", "int64", [5_000_000_000], [1 << 40], [5_000_000_000]),
    ("Clip(x)", "int64", [5_000_000_000], None, [5_000_000_000]),
    ("ReduceSum(x)", "int64", [5_000_000_000, 1], None, [5_000_000_001]),
    ("Identity(x)", "int64", [5_000_000_000], None, [5_000_000_000]),
]


@pytest.mark.parametrize(("expression", "element", "x", "y", "z"), INTEGERS)
def test_integers_are_right_where_nobody_names_a_provider(
    monkeypatch: pytest.MonkeyPatch,
    expression: str,
    element: str,
    x: list[int],
    y: list[int] | None,
    z: list[int],
) -> None:
    monkeypatch.delenv("ORTPKG_PROVIDERS", raising=False)
    text = int_model(expression, element, second=y is not None)
    feeds = {"x": np.array(x, element)} | ({} if y is None else {"y": np.array(y, element)})

    with InferenceSession(model_of(text)) as session:
        (found,) = session.run(None, feeds)

    assert found.dtype == element
    assert found.tolist() == z


def test_a_number_that_nobody_may_write_to_is_fed() -> None:
    text = "g (float x, float[N] y) => (float[N] z) { a = Exp(x) z = Mul(a, y) }"
    number = np.array(0, np.float32)
    number.flags.writeable = False

    (found,) = compute(text, {"x": number, "y": normal(3)}, "OpenVINOExecutionProvider")

    assert found.shape == (3,)


@pytest.mark.parametrize("providers", [None, ["OpenVINOExecutionProvider"]])
@pytest.mark.parametrize("index", [3, -4, 100])
@pytest.mark.parametrize(
    "body",
    [
        "(float[3,2] x, int64[N] i) => (float[N,2] y) { a = Exp(x) y = Gather(a, i) }",
        "(float[M,2] x, int32[N] i) => (float[N,2] y) { y = Gather(x, i) }",
        "(float[2,3] x, int64[N] i) => (float[2,N] y) { j = Cast<to = 6>(i) y = Gather<axis = -1>(x, j) }",
    ],
    ids=["known-size", "free-size", "cast"],
)
def test_an_index_of_gather_that_is_out_of_range_is_an_error(
    monkeypatch: pytest.MonkeyPatch, body: str, index: int, providers: list[str] | None
) -> None:
    monkeypatch.delenv("ORTPKG_PROVIDERS", raising=False)
    element = np.int32 if "int32[N]" in body else np.int64
    x = normal(2, 3) if "float[2,3]" in body else normal(3, 2)

    with InferenceSession(
        model_of(f"g {body}"), providers=providers, allow_fallback=True
    ) as session:
        session.run(None, {"x": x, "i": np.array([0, 2, -3], element)})
        session.run(None, {"x": x, "i": np.array([], element)})
        with pytest.raises(RunError, match=f"index {index} is out of range for an axis of size 3"):
            session.run(None, {"x": x, "i": np.array([0, index], element)})


def test_a_constant_index_of_gather_that_is_out_of_range_is_an_error() -> None:
    text = (
        "g (float[3,2] x) => (float[2,2] y) <int64[2] i = {0, 3}> { a = Exp(x) y = Gather(a, i) }"
    )

    with (
        InferenceSession(
            model_of(text), providers=["OpenVINOExecutionProvider"], allow_fallback=True
        ) as session,
        pytest.raises(RunError, match="index 3 is out of range for an axis of size 3"),
    ):
        session.run(None, {"x": normal(3, 2)})
