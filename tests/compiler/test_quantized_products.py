"""Products and convolutions of dequantized tensors become those of their codes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from ortpkg.compiler.fusion.quantized_products import multiply_codes
from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.tensor_ir.elements import scalar_of
from ortpkg.compiler.tensor_ir.operations import Convolution, Product
from ortpkg.compiler.tensor_ir.tensor_program import TensorProgram
from tests.compiler.compared_with_engine import assert_as_engine
from tests.compiler.rewritten_programs import assert_becomes, lowered

Array = npt.NDArray[Any]
_ROUNDING = 1e-5


def _bytes(dtype: str, *shape: int) -> Array:
    limits = np.iinfo(dtype)
    random = np.random.default_rng(3)
    return random.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def _codes(dtype: str, *shape: int) -> str:
    return ", ".join(map(str, _bytes(dtype, *shape).reshape(-1)))


def _only_product(program: TensorProgram) -> Product:
    (product,) = [each for each in program.operations if isinstance(each, Product)]
    return product


def _matmul(scale: str = "float t = {0.02}", zero: str = "int8 q = {-4}", axis: int = 1) -> str:
    return f"""g (uint8[2, 4, 6] x) => (float[2, 4, 3] y)
        <float s = {{0.03}}, uint8 p = {{120}}, {scale}, {zero},
        int8[6, 3] b = {{{_codes("int8", 6, 3)}}}>
        {{ a = DequantizeLinear(x, s, p) c = DequantizeLinear<axis = {axis}>(b, t, q)
        y = MatMul(a, c) }}"""


@pytest.mark.parametrize(
    ("scale", "zero"),
    [
        ("float t = {0.02}", "int8 q = {-4}"),
        ("float t = {0.02}", "int8 q = {0}"),
        ("float[3] t = {0.02, 0.5, 0.001}", "int8[3] q = {-4, 0, 100}"),
    ],
)
def test_a_product_of_dequantized_matrices_is_one_operation_on_codes(scale: str, zero: str) -> None:
    fused = assert_as_engine(_matmul(scale, zero), {"x": _bytes("uint8", 2, 4, 6)}, rtol=_ROUNDING)
    (product,) = fused.operations
    assert isinstance(product, Product)
    assert (scalar_of(product.left), scalar_of(product.right)) == (Scalar.U8, Scalar.I8)
    assert product.epilogue is not None
    assert product.output.scalar is Scalar.F32


def test_what_quantizes_a_product_is_the_rest_of_its_epilogue() -> None:
    text = f"""g (uint8[4, 6] x) => (uint8[4, 3] y)
        <float s = {{0.03}}, uint8 p = {{120}}, float[3] t = {{0.02, 0.03, 0.01}},
        int8[3] q = {{0, 0, 0}}, int8[3, 6] b = {{{_codes("int8", 3, 6)}}},
        float[3] c = {{1, 2, 3}}, float u = {{0.4}}, uint8 r = {{9}}>
        {{ a = DequantizeLinear(x, s, p) d = DequantizeLinear<axis = 0>(b, t, q)
        e = Gemm<transB = 1>(a, d, c) f = Relu(e) y = QuantizeLinear(f, u, r) }}"""
    fused = assert_as_engine(text, {"x": _bytes("uint8", 4, 6)})
    (product,) = fused.operations
    assert isinstance(product, Product)
    assert (product.output.scalar, scalar_of(product.left)) == (Scalar.U8, Scalar.U8)


def _is_of_floats(text: str, feeds: dict[str, Array]) -> bool:
    return scalar_of(_only_product(assert_as_engine(text, feeds, rtol=1e-3)).left) is Scalar.F32


def test_scales_along_what_is_summed_keep_the_floats() -> None:
    text = _matmul("float[6] t = {1, 2, 3, 4, 5, 6}", "int8[6] q = {0, 1, 2, 3, 4, 5}", axis=0)
    assert _is_of_floats(text, {"x": _bytes("uint8", 2, 4, 6)})


def test_scales_whose_product_is_denormal_keep_the_floats() -> None:
    text = _matmul("float t = {1e-38}").replace("s = {0.03}", "s = {1e-4}")
    assert _is_of_floats(text, {"x": _bytes("uint8", 2, 4, 6)})


def test_scales_that_are_known_only_at_run_time_keep_the_floats() -> None:
    text = _matmul().replace("(uint8[2, 4, 6] x)", "(uint8[2, 4, 6] x, float s)")
    text = text.replace("float s = {0.03}, ", "")
    feeds = {"x": _bytes("uint8", 2, 4, 6), "s": np.array(0.5, np.float32)}
    assert _is_of_floats(text, feeds)


@pytest.mark.parametrize(("depth", "is_of_floats"), [(33025, False), (33026, True)])
def test_sums_that_may_pass_32_bits_keep_the_floats(depth: int, is_of_floats: bool) -> None:
    text = f"""g (uint8[1, {depth}] x, uint8[{depth}, 1] w) => (float[1, 1] y)
        <float s = {{1.0}}, uint8 p = {{0}}>
        {{ a = DequantizeLinear(x, s, p) b = DequantizeLinear(w, s, p) y = MatMul(a, b) }}"""
    feeds = {"x": np.full((1, depth), 255, np.uint8), "w": np.full((depth, 1), 255, np.uint8)}
    assert _is_of_floats(text, feeds) is is_of_floats


def _convolution(groups: int) -> str:
    channels = 4 // groups
    return f"""g (uint8[1, 4, 5, 6] x, uint8[1, 4, 5, 6] z) => (uint8[1, 4, 5, 6] y)
        <float s = {{0.03}}, uint8 p = {{120}}, float[4] t = {{0.02, 0.03, 0.01, 0.05}},
        int8[4] q = {{0, 0, 0, 0}}, int8[4, {channels}, 3, 3] w =
        {{{_codes("int8", 4, channels, 3, 3)}}}, float[4] v = {{6e-4, 9e-4, 3e-4, 15e-4}},
        int32[4] c = {{1000, 2000, -3000, 0}}, int32[4] n = {{0, 0, 0, 0}}, float u = {{0.4}},
        uint8 r = {{9}}>
        {{ a = DequantizeLinear(x, s, p) b = DequantizeLinear<axis = 0>(w, t, q)
        d = DequantizeLinear<axis = 0>(c, v, n)
        e = Conv<pads = [1, 1, 1, 1], group = {groups}>(a, b, d)
        h = DequantizeLinear(z, s, p) i = Add(e, h) f = Relu(i) y = QuantizeLinear(f, u, r) }}"""


@pytest.mark.parametrize("groups", [1, 4])
def test_a_dequantized_convolution_with_what_follows_computes_with_codes(groups: int) -> None:
    feeds = {"x": _bytes("uint8", 1, 4, 5, 6), "z": _bytes("uint8", 1, 4, 5, 6)[..., ::-1]}
    fused = assert_as_engine(
        _convolution(groups), {name: each.copy() for name, each in feeds.items()}
    )
    (convolution,) = (each for each in fused.operations if isinstance(each, Convolution))
    assert convolution.source.scalar is Scalar.U8
    written = {each.output.scalar for each in fused.operations}
    assert written <= {Scalar.U8, Scalar.I8}, "no tensor of floats lies in memory"


def test_a_product_of_dequantized_codes_multiplies_the_codes() -> None:
    graph = """
        g (uint8[2, 4] x) => (uint8[2, 3] y)
        <float s = {0.5}, uint8 p = {3}, float t = {0.25}, int8 q = {0}, float u = {2.0},
         uint8 r = {7}, int8[4, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}> {
            a = DequantizeLinear(x, s, p)  b = DequantizeLinear(w, t, q)
            m = MatMul(a, b)  y = QuantizeLinear(m, u, r) }
        """
    assert_becomes(
        lowered(graph),
        multiply_codes,
        before="""
        a: f32[2, 4] = map
            axes: (2, 4)
            value: ((f32(x[a0, a1]) - 3) * 0.5)
            coordinates: (a0, a1)
        b: f32[4, 3] = map
            axes: (4, 3)
            value: (f32(w[a0, a1]) * 0.25)
            coordinates: (a0, a1)
        m: f32[2, 3] = product
            batch: ()
            m: 2
            n: 3
            k: 4
            left: a[a0, a1]
            right: b[a0, a1]
        y: u8[2, 3] = map
            axes: (2, 3)
            value: u8((round((m[a0, a1] / 2.0)) + 7))
            coordinates: (a0, a1)
        """,
        after="""
        a: f32[2, 4] = map
            axes: (2, 4)
            value: ((f32(x[a0, a1]) - 3) * 0.5)
            coordinates: (a0, a1)
        b: f32[4, 3] = map
            axes: (4, 3)
            value: (f32(w[a0, a1]) * 0.25)
            coordinates: (a0, a1)
        m: f32[2, 3] = product
            batch: ()
            m: 2
            n: 3
            k: 4
            left: x[a0, a1]
            right: w[a0, a1]
            left_zero: 3
            epilogue: (f32(made) * 0.125)
        y: u8[2, 3] = map
            axes: (2, 3)
            value: u8((round((m[a0, a1] / 2.0)) + 7))
            coordinates: (a0, a1)
        """,
    )
