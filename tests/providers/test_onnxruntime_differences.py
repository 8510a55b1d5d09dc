"""Each row of the table of what onnxruntime computes otherwise, held against onnxruntime itself.

What a row is about goes to the embedded engine; what onnxruntime gets right is left to it.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from ortpkg import InferenceSession
from ortpkg.foundations.ep_names import CPU_EP
from ortpkg.runtime.providers.native_library import NativeModel
from ortpkg.runtime.providers.onnxruntime_differences import DIFFERENCES

pytest.importorskip("onnxruntime")

from ortpkg.runtime.providers.onnxruntime_contexts import open_onnxruntime

Model = tuple[str, dict[str, Any]]
RNG = np.random.default_rng(11)


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def small(*shape: int) -> Any:
    return RNG.integers(0, 9, shape).astype(np.uint8)


def attention(attributes: str, *, mask: str = "", keys: int = 6, inputs: str = "") -> Model:
    """Attention with its products as an output."""
    feeds = {"q": normal(2, 3, 4, 8), "k": normal(2, 3, keys, 8), "v": normal(2, 3, keys, 8)}
    declared = "float[2,3,4,8] q, float[2,3,6,8] k, float[2,3,6,8] v"
    if mask:
        declared += f", {mask}[4,6] m"
        feeds["m"] = normal(4, 6) > -1 if mask == "bool" else normal(4, 6)
    text = f"""g ({declared}) => (float[2,3,4,8] y, float[2,3,4,6] p) {{
        y, , , p = Attention <{attributes}> (q, k, v{inputs})
    }}"""
    return text, feeds


def conv_integer(zero_point: str, count: int | None) -> Model:
    text = f"""g (uint8[1,2,5,5] x, uint8[3,2,2,2] w, uint8 z, uint8{zero_point} zw)
    => (int32[1,3,4,4] y) {{ y = ConvInteger (x, w, z, zw) }}"""
    zeros = small() if count is None else small(count)
    return text, {"x": small(1, 2, 5, 5), "w": small(3, 2, 2, 2), "z": small(), "zw": zeros}


def matmul_integer(zero_point: str, shape: tuple[int, ...]) -> Model:
    text = f"""g (uint8[4,5] a, uint8[5,3] b, uint8{zero_point} z) => (int32[4,3] y)
    {{ y = MatMulInteger (a, b, z) }}"""
    return text, {"a": small(4, 5), "b": small(5, 3), "z": np.full(shape, 3, np.uint8)}


def resize(attributes: str, last: str) -> Model:
    text = f"""g (float[1,1,7,9] x) => (float[A,B,C,D] y)
    <float[4] s = {{1, 1, 0.6, 0.7}}, int64[4] t = {{1, 1, 4, 6}}>
    {{ y = Resize <mode = "linear"{attributes}> (x, , {last}) }}"""
    return text, {"x": normal(1, 1, 7, 9)}


def unpool(last: str) -> Model:
    text = f"""g (float[1,1,2,2] x, int64[1,1,2,2] i) => (float[A,B,C,D] y) <int64[4] s = {{1, 1, 5, 5}}>
    {{ y = MaxUnpool <kernel_shape = [2, 2], strides = [2, 2]> (x, i{last}) }}"""
    return text, {"x": normal(1, 1, 2, 2), "i": np.array([[[[5, 7], [13, 15]]]])}


def booleans(operator: str, rows: int) -> Model:
    text = f"""g (bool[2,{rows},4] x) => (bool[2,1,4] y) <int64[1] a = {{1}}>
    {{ y = {operator} (x, a) }}"""
    return text, {"x": np.ones((2, rows, 4), bool)}


def dropout(training: str) -> Model:
    text = f"""g (float[4,9] x) => (float[4,9] y) <float r = {{0.5}}, bool t = {{{training}}}>
    {{ y = Dropout <seed = 3> (x, r, t) }}"""
    return text, {"x": normal(4, 9)}


def backward(end: int) -> Model:
    text = f"""g (float[6] x) => (float[N] y) <int64[1] s = {{-1}}, int64[1] e = {{{end}}}, int64[1] a = {{0}}>
    {{ y = Slice (x, s, e, a, s) }}"""
    return text, {"x": normal(6)}


def split(size: int) -> Model:
    text = f"""g (float[{size}] x) => (float[A] a, float[B] b, float[C] c, float[D] d)
    {{ a, b, c, d = Split <num_outputs = 4> (x) }}"""
    return text, {"x": normal(size)}


_WAVE = np.arange(100, dtype=np.float32).reshape(1, 10, 10, 1)
#: Of a row's name, or of that and more behind a comma.
WITNESSES: dict[str, Model] = {
    "hidden products of Attention": attention("is_causal = 1, qk_matmul_output_mode = 2"),
    "hidden products of Attention, by a mask": attention(
        "qk_matmul_output_mode = 2", mask="bool", inputs=", m"
    ),
    "hidden products of Attention, in a branch": (
        """g (bool c, float[2,3,4,8] q, float[2,3,6,8] k) => (float[2,3,4,6] p) {
            p = If (c) <
                then_branch = one () => (float[2,3,4,6] a) {
                    y, , , a = Attention <is_causal = 1, qk_matmul_output_mode = 2> (q, k, k)
                },
                else_branch = other () => (float[2,3,4,6] b) {
                    z, , , b = Attention (q, k, k)
                }
            >
        }""",
        {"c": np.array(True), "q": normal(2, 3, 4, 8), "k": normal(2, 3, 6, 8)},
    ),
    "short masks of Attention": (
        """g (float[2,2,4,8] q, float[2,2,6,8] k, float[4,4] m) => (float[2,2,4,8] y)
        { y = Attention (q, k, k, m) }""",
        {"q": normal(2, 2, 4, 8), "k": normal(2, 2, 6, 8), "m": normal(4, 4)},
    ),
    "short masks of Attention, with a past": (
        """g (float[2,2,4,8] q, float[2,2,6,8] k, float[4,7] m, float[2,2,3,8] p)
        => (float[2,2,4,8] y, float[2,2,9,8] k2, float[2,2,9,8] v2)
        { y, k2, v2 = Attention (q, k, k, m, p, p) }""",
        {
            "q": normal(2, 2, 4, 8),
            "k": normal(2, 2, 6, 8),
            "m": normal(4, 7),
            "p": normal(2, 2, 3, 8),
        },
    ),
    "zero points of ConvInteger": conv_integer("[3]", 3),
    "DFT and STFT": (
        "g (float[1,10,10,1] x) => (float[1,10,10,2] y) { y = DFT <axis = 1> (x) }",
        {"x": _WAVE},
    ),
    "DFT and STFT, STFT": (
        """g (float[1,128,1] x) => (float[1,15,9,2] y) <int64 step = {8}, int64 length = {16}>
        { y = STFT (x, step, , length) }""",
        {"x": np.arange(128, dtype=np.float32).reshape(1, 128, 1)},
    ),
    "drawn zeros of Dropout": dropout("1"),
    "zero points of MatMulInteger": matmul_integer("[4]", (4,)),
    "zero points of MatMulInteger, of rank 2": matmul_integer("[4,1]", (4, 1)),
    "stated sizes of MaxUnpool": unpool(", s"),
    "backward slices from the end": backward(2**63 - 1),
    "backward slices from the end, in 32 bits": backward(2**31 - 1),
    "empty parts of Split": split(5),
    "reductions of no booleans": booleans("ReduceMax", 0),
    "reductions of no booleans, ReduceMin": booleans("ReduceMin", 0),
    "aligned corners of Resize": resize(
        ', coordinate_transformation_mode = "align_corners"', "s"
    ),
    "aligned corners of Resize, of a policy": resize(
        ', coordinate_transformation_mode = "align_corners", keep_aspect_ratio_policy = "not_larger"',
        ", t",
    ),
}  # fmt: skip
OPSETS = {"DFT and STFT": 19}
RIGHT: dict[str, Model] = {
    "products that nothing hides": attention(
        "qk_matmul_output_mode = 2", mask="float", inputs=", m"
    ),
    "products before they are hidden": attention("is_causal = 1"),
    "a zero point of ConvInteger": conv_integer("", None),
    "one zero point of ConvInteger": conv_integer("[1]", 1),
    "one zero point of MatMulInteger": matmul_integer("[1]", (1,)),
    "Dropout at rest": dropout("0"),
    "MaxUnpool": unpool(""),
    "a backward slice": backward(-(2**63)),
    "parts of Split": split(7),
    "some booleans": booleans("ReduceMax", 3),
    "aligned corners of stated sizes": resize(
        ', coordinate_transformation_mode = "align_corners"', ", t"
    ),
    "scales": resize("", "s"),
    "a whole mask": (
        """g (float[2,2,4,8] q, float[2,2,6,8] k, float[M,N] m) => (float[2,2,4,8] y)
        { y = Attention (q, k, k, m) }""",
        {"q": normal(2, 2, 4, 8), "k": normal(2, 2, 6, 8), "m": normal(4, 6)},
    ),
}


def model_of(text: str, opset: int) -> bytes:
    head = f'<ir_version: 10, opset_import: ["" : {opset}]>'
    return bytes(onnx.parser.parse_model(f"{head}\n{text}").SerializeToString())


def compute_by_library(data: bytes, feeds: dict[str, Any]) -> list[Any]:
    """The outputs of onnxruntime alone, whatever the table says of the model."""
    graph = onnx.load_model_from_string(data).graph
    inputs, outputs = ([value.name for value in ends] for ends in (graph.input, graph.output))
    model = NativeModel(data=data, inputs=tuple(inputs), outputs=tuple(outputs))
    compiled = open_onnxruntime(CPU_EP).compile_model(model)
    unwatched: Any = SimpleNamespace(is_watched=False)
    return list(compiled.compute([np.asarray(feeds[name]) for name in inputs], unwatched))


def are_equal(outputs: list[Any], expected: list[Any], atol: float = 1e-5) -> bool:
    return all(
        (one.dtype, one.shape) == (other.dtype, other.shape)
        and np.allclose(one, other, rtol=1e-5, atol=atol, equal_nan=True)
        for one, other in zip(outputs, expected, strict=True)
    )


def test_every_row_has_a_witness() -> None:
    rows = [row.name for row in DIFFERENCES]

    assert len(set(rows)) == len(rows)
    assert {name.partition(",")[0] for name in WITNESSES} == set(rows)


@pytest.mark.parametrize("name", WITNESSES)
def test_the_library_is_wrong(name: str) -> None:
    """A row that onnxruntime gets right is to go, so that it is given such nodes again."""
    text, feeds = WITNESSES[name]
    data = model_of(text, OPSETS.get(name, 23))
    expected = InferenceSession(data, providers=[CPU_EP]).run(None, feeds)
    try:
        outputs = compute_by_library(data, feeds)
    except Exception:  # noqa: BLE001 - what it takes and then refuses to run is wrong, too
        return
    assert not are_equal(outputs, expected, atol=1e-6)


@pytest.mark.parametrize("name", WITNESSES)
def test_what_onnxruntime_gets_wrong_is_computed_elsewhere_and_the_log_says_why(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    text, feeds = WITNESSES[name]
    data = model_of(text, OPSETS.get(name, 23))
    (row,) = (row for row in DIFFERENCES if row.name == name.partition(",")[0])
    expected = InferenceSession(data, providers=[CPU_EP]).run(None, feeds)

    with InferenceSession(data, providers=[CPU_EP], backend="onnxruntime") as session:
        outputs = session.run(None, feeds)

    assert are_equal(outputs, expected, atol=1e-7)
    assert f"wrong: {row.behaviour}" in caplog.text


@pytest.mark.parametrize("name", RIGHT)
def test_what_onnxruntime_gets_right_it_computes(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    text, feeds = RIGHT[name]
    data = model_of(text, 23)
    expected = InferenceSession(data, providers=[CPU_EP]).run(None, feeds)

    with InferenceSession(data, providers=[CPU_EP], backend="onnxruntime") as session:
        outputs = session.run(None, feeds)
        partitions = session._state.partitions

    assert are_equal(outputs, expected)
    assert "wrong: " not in caplog.text
    assert [partition.provider for partition in partitions] == [CPU_EP]
