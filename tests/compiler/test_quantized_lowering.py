"""Quantized operators: what lowering makes of them gives the integers of the engine's kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx.parser
import pytest

from ortpkg.compiler.lowering.lowering_scope import NotLoweredError
from ortpkg.compiler.lowering.operator_lowerings import lower_graph
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.shapes.inference import infer_sizes
from tests.compiler.compared_with_engine import assert_as_engine
from tests.engine.transformers.transformation import HEADER

Array = npt.NDArray[Any]


def _reason(text: str) -> str:
    model = load_model(onnx.parser.parse_model(HEADER + text).SerializeToString())
    with pytest.raises(NotLoweredError) as error:
        lower_graph(model.graph, infer_sizes(model), "program")
    return str(error.value)


def _bytes(dtype: str, *shape: int, seed: int = 0) -> Array:
    random = np.random.default_rng(seed)
    limits = np.iinfo(dtype)
    return random.integers(limits.min, limits.max, shape, dtype, endpoint=True)


@pytest.mark.parametrize(
    ("kind", "zero"), [("uint8", 128), ("int8", -3), ("uint16", 30000), ("int16", -9)]
)
def test_numbers_between_codes_round_half_to_even_and_saturate(kind: str, zero: int) -> None:
    halves = np.arange(-40, 40, dtype=np.float32) / 4
    far = np.array([1e9, -1e9, np.inf, -np.inf, np.nan, 3e38], np.float32)
    x = np.concatenate([halves, far]).reshape(2, -1)
    text = f"""g (float[2, 43] x) => ({kind}[2, 43] y)
        <float s = {{0.5}}, {kind} z = {{{zero}}}> {{ y = QuantizeLinear(x, s, z) }}"""
    assert_as_engine(text, {"x": x})


def test_codes_without_a_zero_point_are_unsigned_bytes() -> None:
    text = "g (float[3] x, float s) => (uint8[3] y) { y = QuantizeLinear(x, s) }"
    x = np.array([-1, 2.5, 9], np.float32)
    assert_as_engine(text, {"x": x, "s": np.array(2, np.float32)})


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_each_place_along_an_axis_has_its_scale(axis: int) -> None:
    size = (3, 2, 5)[axis]
    text = f"""g (float[3, 2, 5] x, float[{size}] s, int8[{size}] z) => (int8[3, 2, 5] y,
        float[3, 2, 5] w) {{ y = QuantizeLinear<axis = {axis}>(x, s, z)
        w = DequantizeLinear<axis = {axis}>(y, s, z) }}"""
    x = np.random.default_rng(1).normal(0, 30, (3, 2, 5)).astype(np.float32)
    scale = np.linspace(0.1, 0.7, size, dtype=np.float32)
    assert_as_engine(text, {"x": x, "s": scale, "z": np.arange(size, dtype=np.int8) - 2})


def test_differences_of_i32_that_need_more_bits_are_exact() -> None:
    text = """g (int32[3] x) => (float[3] y) <float s = {0.25}, int32 z = {-2147483648}>
        { y = DequantizeLinear(x, s, z) }"""
    x = np.array([2**31 - 1, 0, -(2**31)], np.int32)
    assert_as_engine(text, {"x": x})


@pytest.mark.parametrize("numbers", [[0.0, 0.0], [1.0, 3.0], [-1.0, -3.0], [-2.0, 5.0], []])
def test_dynamic_codes_cover_all_numbers_and_zero(numbers: list[float]) -> None:
    text = f"""g (float[{len(numbers)}] x) => (uint8[{len(numbers)}] y, float s, uint8 z)
        {{ y, s, z = DynamicQuantizeLinear(x) }}"""
    assert_as_engine(text, {"x": np.array(numbers, np.float32)})


@pytest.mark.parametrize("left", ["uint8", "int8"])
@pytest.mark.parametrize("right", ["uint8", "int8"])
def test_integer_products_take_zero_points_of_rows_and_columns(left: str, right: str) -> None:
    text = f"""g ({left}[4, 7] a, {right}[7, 5] b, {left}[4] p, {right}[5] q) => (int32[4, 5] y)
        {{ y = MatMulInteger(a, b, p, q) }}"""
    feeds = {
        "a": _bytes(left, 4, 7),
        "b": _bytes(right, 7, 5),
        "p": _bytes(left, 4, seed=1),
        "q": _bytes(right, 5, seed=2),
    }
    assert_as_engine(text, feeds)


def test_integer_products_take_vectors_and_batches() -> None:
    text = """g (uint8[6] a, int8[3, 6, 2] b) => (int32[3, 2] y) <uint8 p = {7}>
        { y = MatMulInteger(a, b, p) }"""
    assert_as_engine(text, {"a": _bytes("uint8", 6), "b": _bytes("int8", 3, 6, 2)})


@pytest.mark.parametrize("scales", ["float t = {0.01}", "float[3] t = {0.01, 0.02, 0.005}"])
def test_products_of_codes_are_codes(scales: str) -> None:
    text = f"""g (uint8[2, 4, 6] a, int8[6, 3] b) => (uint8[2, 4, 3] y)
        <float s = {{0.02}}, uint8 p = {{9}}, {scales}, int8 q = {{-4}}, float u = {{0.03}},
        uint8 r = {{131}}> {{ y = QLinearMatMul(a, s, p, b, t, q, u, r) }}"""
    assert_as_engine(text, {"a": _bytes("uint8", 2, 4, 6), "b": _bytes("int8", 6, 3)})


def test_scales_that_are_inputs_are_multiplied_when_it_runs() -> None:
    text = """g (uint8[4, 6] a, uint8[6, 3] b, float[4] s, float[3] t) => (int8[4, 3] y)
        <uint8 p = {9}, float u = {0.03}, int8 r = {-11}>
        { y = QLinearMatMul(a, s, p, b, t, p, u, r) }"""
    feeds = {"a": _bytes("uint8", 4, 6), "b": _bytes("uint8", 6, 3),
             "s": np.linspace(0.001, 0.01, 4, dtype=np.float32),
             "t": np.linspace(0.02, 0.04, 3, dtype=np.float32)}  # fmt: skip
    assert_as_engine(text, feeds)


def test_products_of_codes_are_numbers_with_a_bias() -> None:
    text = """g (uint8[4, 6] a, int8[6, 3] b, float s) => (float[4, 3] y)
        <float[3] t = {0.01, 0.02, 0.005}, uint8 p = {9}, float[3] c = {1, 2, 3}>
        { y = com.microsoft.MatMulIntegerToFloat(a, b, s, t, p, , c) }"""
    feeds = {"a": _bytes("uint8", 4, 6), "b": _bytes("int8", 6, 3), "s": np.array(0.3, np.float32)}
    assert_as_engine(text, feeds, rtol=1e-6)


def test_a_left_side_is_quantized_over_its_range() -> None:
    text = """g (float[2, 4, 6] a, int8[6, 3] b) => (float[2, 4, 3] y)
        <float t = {0.01}, float[3] c = {1, 2, 3}>
        { y = com.microsoft.DynamicQuantizeMatMul(a, b, t, , c) }"""
    a = np.random.default_rng(5).normal(0, 3, (2, 4, 6)).astype(np.float32)
    assert_as_engine(text, {"a": a, "b": _bytes("int8", 6, 3)}, rtol=1e-6)


@pytest.mark.parametrize("quantizes", [True, False])
def test_quantized_gemm_adds_a_bias_of_the_products_scale(quantizes: bool) -> None:
    kind, last = ("uint8", ", u, r") if quantizes else ("float", "")
    text = f"""g (uint8[6, 4] a, int8[3, 6] b) => ({kind}[4, 3] y)
        <float s = {{0.02}}, uint8 p = {{9}}, float[3] t = {{0.01, 0.02, 0.005}},
        int8[3] q = {{1, 0, -3}}, int32[3] c = {{100, -2000, 31}}, float u = {{0.03}},
        uint8 r = {{131}}>
        {{ y = com.microsoft.QGemm<transA = 1, transB = 1, alpha = 0.5>(a, s, p, b, t, q, c{last})
        }}"""
    assert_as_engine(text, {"a": _bytes("uint8", 6, 4), "b": _bytes("int8", 3, 6)}, rtol=1e-6)


@pytest.mark.parametrize("operator", ["QLinearAdd", "QLinearMul"])
def test_codes_are_added_and_multiplied(operator: str) -> None:
    text = f"""g (int8[4, 256] a, int8[256] b) => (int8[4, 256] y)
        <float s = {{0.02}}, int8 p = {{9}}, float t = {{0.03}}, int8 q = {{-5}}, float u = {{0.04}},
        int8 r = {{2}}> {{ y = com.microsoft.{operator}(a, s, p, b, t, q, u, r) }}"""
    assert_as_engine(text, {"a": _bytes("int8", 4, 256), "b": _bytes("int8", 256, seed=3)})


@pytest.mark.parametrize("operator", ["QLinearSigmoid", "QLinearLeakyRelu<alpha = 0.2>"])
@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_activations_of_codes_are_codes(operator: str, kind: str) -> None:
    text = f"""g ({kind}[4, 256] x) => ({kind}[4, 256] y)
        <float s = {{0.02}}, {kind} p = {{9}}, float t = {{0.013}}, {kind} q = {{5}}>
        {{ y = com.microsoft.{operator}(x, s, p, t, q) }}"""
    assert_as_engine(text, {"x": _bytes(kind, 4, 256)})


def test_a_zero_point_of_an_activation_may_be_left_out() -> None:
    text = """g (uint8[256] x, float s) => (uint8[256] y) <float t = {0.007}>
        { y = com.microsoft.QLinearLeakyRelu(x, s, , t) }"""
    assert_as_engine(text, {"x": _bytes("uint8", 256), "s": np.array(0.01, np.float32)})


def test_codes_are_joined_under_the_scale_of_the_output() -> None:
    text = """g (uint8[2, 3] a, uint8[2, 0] b, uint8[2, 5] c) => (uint8[2, 8] y)
        <float s = {0.02}, uint8 p = {9}, float t = {0.03}, uint8 q = {131}>
        { y = com.microsoft.QLinearConcat<axis = -1>(s, p, a, t, q, b, t, q, c, s, p) }"""
    feeds = {"a": _bytes("uint8", 2, 3), "b": np.zeros((2, 0), np.uint8),
             "c": _bytes("uint8", 2, 5, seed=3)}  # fmt: skip
    assert_as_engine(text, feeds)


def test_what_is_not_compiled_says_why() -> None:
    assert "blocks" in _reason(
        """g (float[2, 4] x, float[2, 2] s) => (uint8[2, 4] y)
        { y = QuantizeLinear<axis = 1, block_size = 2>(x, s) }"""
    )
    assert "float32 alone" in _reason(
        """g (float16[2] x, float16 s) => (uint8[2] y) { y = QuantizeLinear(x, s) }"""
    )
    assert "neither one for all nor one for each" in _reason(
        """g (uint8[2, 3] a, uint8[3, 4] b, uint8[9] z) => (int32[2, 4] y)
        { y = MatMulInteger(a, b, z) }"""
    )
