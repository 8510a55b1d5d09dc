"""Sums between dequantize and quantize nodes become codes by one product, as onnxruntime's do."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx.parser
import pytest

from ortpkg.compiler.fusion.epilogues import fuse_epilogues
from ortpkg.compiler.fusion.quantized_products import multiply_codes
from ortpkg.compiler.fusion.requantization import requantize_at_once
from ortpkg.compiler.fusion.unused_operations import remove_unused
from ortpkg.compiler.lowering.operator_lowerings import lower_graph
from ortpkg.compiler.passes import optimized
from ortpkg.compiler.tensor_ir.elements import Call, Function, parts_of
from ortpkg.compiler.tensor_ir.tensor_program import TensorProgram, elements_of
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.shapes.inference import infer_sizes
from tests.compiler.reference_program import run_program
from tests.compiler.rewritten_programs import assert_becomes, lowered
from tests.engine.transformers.transformation import HEADER

Array = npt.NDArray[Any]
#: Of source, weights and output: their quotient is near 1/2, so that many sums lie between codes.
_SOURCE, _WEIGHTS, _OUTPUT = (np.float32(each) for each in (0.1, 0.3, 0.06))
_BIAS = np.array([100, -7, 0, 3], np.int32)


def _program(*, bias: str, behind: str = "y = QuantizeLinear(c, u, r)") -> TensorProgram:
    text = f"""g (uint8[1, 4, 9, 9] x) => (uint8[1, 4, 9, 9] y)
        <float s = {{{_SOURCE}}}, uint8 p = {{0}}, float t = {{{_WEIGHTS}}}, int8 q = {{0}},
        int8[4, 4, 1, 1] w = {{{", ".join(map(str, _weights().reshape(-1)))}}},
        float u = {{{_OUTPUT}}}, uint8 r = {{100}}, {bias}>
        {{ a = DequantizeLinear(x, s, p) b = DequantizeLinear(w, t, q) {_known(bias)}
        c = Conv(a, b, e) {behind} }}"""
    model = load_model(onnx.parser.parse_model(HEADER + text).SerializeToString())
    return optimized(lower_graph(model.graph, infer_sizes(model), "program"))


def _known(bias: str) -> str:
    return "" if bias.startswith("float[4] e") else "e = DequantizeLinear(d, v, n)"


def _integers() -> str:
    numbers = ", ".join(map(str, _BIAS))
    unit = _SOURCE * _WEIGHTS
    return f"int32[4] d = {{{numbers}}}, float v = {{{unit}}}, int32 n = {{0}}"


def _floats() -> str:
    numbers = ", ".join(str(each * _SOURCE * _WEIGHTS) for each in _BIAS)
    return f"float[4] e = {{{numbers}}}"


def _weights() -> Array:
    return np.random.default_rng(5).integers(-9, 10, (4, 4, 1, 1), np.int8)


def _codes() -> Array:
    return np.random.default_rng(6).integers(0, 40, (1, 4, 9, 9), np.uint8)


def _expected(*, is_bounded: bool) -> Array:
    """QLinearConv's formula."""
    sums = np.einsum("oi,nihw->nohw", _weights()[:, :, 0, 0].astype(np.int32), _codes())
    sums = (sums + _BIAS[:, None, None]).astype(np.float32)
    scaled = sums * (_SOURCE * _WEIGHTS / _OUTPUT)
    rounded = np.rint(np.maximum(scaled, 0) if is_bounded else scaled)
    codes: Array = np.clip(rounded + 100, 0, 255).astype(np.uint8)
    return codes


def _counts(program: TensorProgram) -> dict[Function, int]:
    found = [
        part.function
        for operation in program.operations
        for element in elements_of(operation)
        for part in parts_of(element)
        if isinstance(part, Call)
    ]
    return {each: found.count(each) for each in (Function.MUL, Function.DIV)}


@pytest.mark.parametrize("is_bounded", [False, True])
@pytest.mark.parametrize("bias", [_integers(), _floats()], ids=["integers", "floats"])
def test_codes_are_those_of_one_scale(bias: str, is_bounded: bool) -> None:
    behind = (
        "f = Relu(c) y = QuantizeLinear(f, u, r)" if is_bounded else "y = QuantizeLinear(c, u, r)"
    )
    program = _program(bias=bias, behind=behind)
    (made,) = run_program(program, [_codes()])
    np.testing.assert_array_equal(made, _expected(is_bounded=is_bounded))
    assert _counts(program) == {Function.MUL: 1, Function.DIV: 0}


def test_a_bias_of_other_units_keeps_its_own_product() -> None:
    bias = _integers().replace(f"float v = {{{_SOURCE * _WEIGHTS}}}", "float v = {0.5}")
    assert _counts(_program(bias=bias))[Function.DIV] == 1


def test_a_bias_with_which_sums_may_pass_32_bits_keeps_the_floats() -> None:
    bias = _integers().replace("100,", f"{2**31 - 1},")
    assert _counts(_program(bias=bias))[Function.DIV] == 1


def test_what_is_added_behind_a_bound_keeps_the_floats() -> None:
    behind = "f = Relu(c) h = Add(f, u) y = QuantizeLinear(h, u, r)"
    program = _program(bias=_floats(), behind=behind)
    assert _counts(program)[Function.DIV] == 1


def test_a_program_without_sums_of_bytes_stays_as_it_is() -> None:
    text = "g (float[2] x) => (float[2] y) { y = Relu(x) }"
    model = load_model(onnx.parser.parse_model(HEADER + text).SerializeToString())
    program = lower_graph(model.graph, infer_sizes(model), "program")
    assert requantize_at_once(program).operations == program.operations


def _with_epilogues(program: TensorProgram) -> TensorProgram:
    return fuse_epilogues(remove_unused(multiply_codes(program)))


def test_two_scales_of_a_convolution_of_codes_become_one() -> None:
    graph = """
        g (uint8[1, 1, 2, 2] x) => (uint8[1, 2, 2, 2] y)
        <float s = {0.5}, uint8 p = {0}, float t = {0.25}, int8 q = {0}, float u = {0.75},
         uint8 r = {7}, int8[2, 1, 1, 1] w = {1, -2}> {
            a = DequantizeLinear(x, s, p)  b = DequantizeLinear(w, t, q)
            c = Conv(a, b)  y = QuantizeLinear(c, u, r) }
        """
    assert_becomes(
        _with_epilogues(lowered(graph)),
        requantize_at_once,
        before="""
        y: u8[1, 2, 2, 2] = convolution
            source: x: u8[1, 1, 2, 2]
            weights: w: i8[2, 1, 1, 1]
            groups: 1
            window: kernel (1, 1), strides (1, 1), dilations (1, 1), before (0, 0), after (0, 0)
            epilogue: u8((round(((f32(made) * 0.125) / 0.75)) + 7))
        """,
        after="""
        y: u8[1, 2, 2, 2] = convolution
            source: x: u8[1, 1, 2, 2]
            weights: w: i8[2, 1, 1, 1]
            groups: 1
            window: kernel (1, 1), strides (1, 1), dilations (1, 1), before (0, 0), after (0, 0)
            epilogue: u8((round((f32(made) * 0.1666666716337204)) + 7))
        """,
    )
