"""Quantize and dequantize nodes fold into quantized kernels.

Unequal parameters and other uses keep them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import pytest

from ortpkg.engine.transformers.dequantize_gather_fusion import DEQUANTIZE_GATHER_FUSION
from ortpkg.engine.transformers.dynamic_quantize_matmul_fusion import DYNAMIC_QUANTIZE_MATMUL_FUSION
from ortpkg.engine.transformers.qdq_conv_fusion import QDQ_CONV_FUSION
from ortpkg.engine.transformers.qdq_elementwise_fusion import QDQ_ELEMENTWISE_FUSION
from ortpkg.engine.transformers.qdq_eliminations import (
    QDQ_ACTIVATION_ELIMINATION,
    QDQ_MOVE,
    QDQ_PAIR_ELIMINATION,
)
from ortpkg.engine.transformers.qdq_matmul_fusion import QDQ_MATMUL_FUSION
from ortpkg.engine.transformers.rule_driver import RuleDriver
from ortpkg.engine.transformers.transform_context import RewriteRule, TransformContext
from ortpkg.graph.onnx_reader import load_model
from ortpkg.shapes.inference import infer_types
from tests.engine.transformers.transformation import (
    EVERY_KERNEL,
    Cleaned,
    assert_becomes,
    assert_unchanged,
    named_constants,
)


def rules(*found: RewriteRule) -> Cleaned:
    return Cleaned(RuleDriver("test", found))


CONV, MATMUL, ELEMENTWISE = (
    rules(QDQ_CONV_FUSION),
    rules(QDQ_MATMUL_FUSION),
    rules(QDQ_ELEMENTWISE_FUSION),
)
ELIMINATIONS = rules(QDQ_ACTIVATION_ELIMINATION, QDQ_PAIR_ELIMINATION, QDQ_MOVE)
DYNAMIC, GATHER = rules(DYNAMIC_QUANTIZE_MATMUL_FUSION), rules(DEQUANTIZE_GATHER_FUSION)


def weights(*texts: str) -> dict[str, Any]:
    """The constants that the texts name."""
    generator = np.random.default_rng(4)
    per_channel = np.array([0.25, 0.5, 0.125], np.float32)
    arrays: dict[str, Any] = {
        "sx": np.float32(0.05), "zx": np.uint8(120), "sy": np.float32(0.5), "zy": np.uint8(128), "zy0": np.uint8(0),
        "s2": np.float32(0.07), "z2": np.uint8(100), "si": np.float32(0.05), "zi": np.int8(-3),
        "w": generator.integers(-100, 100, (3, 2, 3, 3)).astype(np.int8), "sw": per_channel, "zw": np.zeros(3, np.int8),
        "sb": np.float32(0.05) * per_channel, "b": np.array([10, -400, 700], np.int32), "zb": np.zeros(3, np.int32),
        "sb2": np.float32(0.04) * per_channel, "fb": np.array([0.5, -1.0, 2.0], np.float32),
        "m": generator.integers(-100, 100, (4, 3)).astype(np.int8),
        "mt": generator.integers(-9, 9, (3, 4)).astype(np.int8), "s1": np.float32(0.25), "z1": np.int8(3),
        "wide": np.array([0.1, 0.2], np.float32), "zwide": np.zeros(2, np.uint8),
        "row": np.array([1, 2, 3], np.float32), "low": np.float32(0), "six": np.float32(6), "lots": np.float32(1000),
        "shape": np.array([2, -1]), "ids": np.array([2, 0]), "sv": np.ones(4, np.float32),
    }  # fmt: skip
    return named_constants(arrays, *texts)


def graph(body: str, outputs: str, inputs: str = "uint8[1, 2, 7, 7] x") -> str:
    return f"g ({inputs}) => ({outputs}) {{ {body} }}"


def assert_body_becomes(
    transformer: Cleaned, body: str, after: str, outputs: str, inputs: str = "uint8[1, 2, 7, 7] x"
) -> None:
    assert_becomes(
        transformer,
        before=graph(body, outputs, inputs),
        after=graph(after, outputs, inputs),
        weights=weights(body, after),
        context=EVERY_KERNEL,
    )


def assert_body_unchanged(
    transformer: Cleaned, body: str, outputs: str, inputs: str = "uint8[1, 2, 7, 7] x"
) -> None:
    assert_unchanged(
        transformer, graph(body, outputs, inputs), weights=weights(body), context=EVERY_KERNEL
    )


# --- convolution ----------------------------------------------------------------------------------

X = "xf = DequantizeLinear(x, sx, zx)"
W = "wf = DequantizeLinear <axis = 0> (w, sw, zw)"
BIAS = "bf = DequantizeLinear <axis = 0> (b, sb, zb)"
QUANTIZE = "y = QuantizeLinear(f, sy, zy)"
QCONV = "uint8[1, 3, 5, 5] y"


@pytest.mark.parametrize(
    ("bias", "operands", "after"),
    [
        ("", "xf, wf", "x, sx, zx, w, sw, zw, sy, zy"),
        (BIAS, "xf, wf, bf", "x, sx, zx, w, sw, zw, sy, zy, b"),
        ("", "xf, wf, fb", "x, sx, zx, w, sw, zw, sy, zy, fb_quantized__0"),
    ],
    ids=["no bias", "quantized bias", "float bias"],
)
@pytest.mark.requirement("D03")
def test_convolution_between_quantized_values_becomes_one_node(
    bias: str, operands: str, after: str
) -> None:
    assert_body_becomes(
        CONV, f"{X} {W} {bias} f = Conv({operands}) {QUANTIZE}", f"y = QLinearConv({after})", QCONV
    )


def test_a_zero_point_that_is_left_out_is_zero() -> None:
    assert_body_becomes(
        CONV,
        f"{X} wf = DequantizeLinear <axis = 0> (w, sw) f = Conv(xf, wf) {QUANTIZE}",
        "y = QLinearConv(x, sx, zx, w, sw, sw_zero_point__0, sy, zy)",
        QCONV,
    )


def test_attributes_of_the_convolution_stay() -> None:
    attributes = "<pads = [1, 0, 1, 0], strides = [2, 1]>"
    assert_body_becomes(
        CONV,
        f"{X} {W} f = Conv {attributes} (xf, wf) {QUANTIZE}",
        f"y = QLinearConv {attributes} (x, sx, zx, w, sw, zw, sy, zy)",
        "uint8[1, 3, 4, 5] y",
    )


@pytest.mark.parametrize(
    ("body", "outputs"),
    [
        (f"{X} {W} f = Conv(xf, wf) {QUANTIZE}", f"{QCONV}, float[1, 3, 5, 5] f"),
        (f"{X} {W} f = Conv(xf, wf)", "float[1, 3, 5, 5] f"),
        (f"xf = DequantizeLinear <axis = 1> (x, wide, zwide) {W} f = Conv(xf, wf) {QUANTIZE}", QCONV),
        (f"{X} {W} bf = DequantizeLinear <axis = 0> (b, sb2, zb) f = Conv(xf, wf, bf) {QUANTIZE}", QCONV),
        (f"{X} {W} f = Conv(xf, wf) r = Relu(f) y = QuantizeLinear(r, sy, zy)", QCONV),
    ],
    ids=[
        "result is an output too", "result is not quantized", "input has a scale per channel",
        "bias has another scale", "activation between",
    ],
)  # fmt: skip
def test_other_convolutions_stay(body: str, outputs: str) -> None:
    assert_body_unchanged(CONV, body, outputs)


def test_convolution_stays_where_the_provider_has_no_quantized_kernel() -> None:
    body = f"{X} {W} f = Conv(xf, wf) {QUANTIZE}"
    assert_unchanged(CONV, graph(body, QCONV), weights=weights(body), context=TransformContext())


# --- matrices -------------------------------------------------------------------------------------

A = "uint8[2, 4] x"
ROWS = "uint8[2, 3] y"


@pytest.mark.parametrize(
    ("body", "after"),
    [
        (f"{X} mf = DequantizeLinear(m, s1, z1) f = MatMul(xf, mf) {QUANTIZE}",
         "y = QLinearMatMul(x, sx, zx, m, s1, z1, sy, zy)"),
        (f"{X} mf = DequantizeLinear <axis = 1> (m, sw, zw) f = MatMul(xf, mf) {QUANTIZE}",
         "y = QLinearMatMul(x, sx, zx, m, sw, zw, sy, zy)"),
        (f"{X} mf = DequantizeLinear <axis = 1> (m, sw, zw) {BIAS} f = Gemm(xf, mf, bf) {QUANTIZE}",
         "y = com.microsoft.QGemm(x, sx, zx, m, sw, zw, b, sy, zy)"),
        (f"{X} mf = DequantizeLinear <axis = 0> (mt, sw, zw) f = Gemm <transB = 1> (xf, mf) {QUANTIZE}",
         'y = com.microsoft.QGemm <transB = 1> (x, sx, zx, mt, sw, zw, "", sy, zy)'),
    ],
    ids=["one scale", "scale per column", "Gemm with bias", "Gemm transposed"],
)  # fmt: skip
def test_product_of_quantized_matrices_becomes_one_node(body: str, after: str) -> None:
    assert_body_becomes(MATMUL, body, after, ROWS, A)


@pytest.mark.parametrize(
    ("body", "after"),
    [
        (f"{X} mf = DequantizeLinear(m, s1, z1) f = MatMul(xf, mf)",
         "f = com.microsoft.MatMulIntegerToFloat(x, m, sx, s1, zx, z1)"),
        (f"{X} mf = DequantizeLinear(m, s1, z1) f = Gemm(xf, mf)",
         "f = com.microsoft.QGemm(x, sx, zx, m, s1, z1)"),
    ],
)  # fmt: skip
def test_product_that_is_not_quantized_is_made_in_float(body: str, after: str) -> None:
    assert_body_becomes(MATMUL, body, after, "float[2, 3] f", A)


@pytest.mark.parametrize(
    "body",
    [
        f"{X} mf = DequantizeLinear <axis = 0> (m, sv) f = MatMul(xf, mf) {QUANTIZE}",
        f"{X} mf = DequantizeLinear(m, s1, z1) f = Gemm <alpha = 2.0> (xf, mf) {QUANTIZE}",
        f"{X} mf = DequantizeLinear(m, s1, z1) f = Gemm <beta = 2.0> (xf, mf, fb) {QUANTIZE}",
    ],
    ids=["scale per row", "alpha", "beta"],
)
def test_other_products_stay(body: str) -> None:
    assert_body_unchanged(MATMUL, body, ROWS, A)


# --- elementwise ----------------------------------------------------------------------------------

PAIR = "uint8[2, 3] x, uint8[2, 3] v"
BOTH = "xf = DequantizeLinear(x, sx, zx) vf = DequantizeLinear(v, s2, z2)"


@pytest.mark.parametrize(
    ("body", "after"),
    [
        (f"{BOTH} f = Add(xf, vf) {QUANTIZE}", "QLinearAdd(x, sx, zx, v, s2, z2, sy, zy)"),
        (f"{BOTH} f = Mul(xf, vf) {QUANTIZE}", "QLinearMul(x, sx, zx, v, s2, z2, sy, zy)"),
        (f"{BOTH} f = Concat <axis = 1> (xf, vf) {QUANTIZE}",
         "QLinearConcat <axis = 1> (sy, zy, x, sx, zx, v, s2, z2)"),
        (f"{X} f = Sigmoid(xf) y = QuantizeLinear(f, sx, zy0)", "QLinearSigmoid(x, sx, zx, sx, zy0)"),
        (f"{X} f = LeakyRelu <alpha = 0.5> (xf) {QUANTIZE}", "QLinearLeakyRelu <alpha = 0.5> (x, sx, zx, sy, zy)"),
        (f"{X} f = Softmax(xf) y = QuantizeLinear(f, sx, zy0)",
         "QLinearSoftmax <axis = -1, opset = 13> (x, sx, zx, sx, zy0)"),
    ],
    ids=["Add", "Mul", "Concat", "Sigmoid", "LeakyRelu", "Softmax"],
)  # fmt: skip
def test_elementwise_operators_on_quantized_values_become_one_node(body: str, after: str) -> None:
    outputs = "uint8[2, 6] y" if "Concat" in body else "uint8[2, 3] y"
    assert_body_becomes(ELEMENTWISE, body, f"y = com.microsoft.{after}", outputs, PAIR)


def test_global_average_of_quantized_values_becomes_one_node() -> None:
    assert_body_becomes(
        ELEMENTWISE,
        f"{X} f = GlobalAveragePool(xf) {QUANTIZE}",
        "y = com.microsoft.QLinearGlobalAveragePool(x, sx, zx, sy, zy)",
        "uint8[1, 2, 1, 1] y",
    )


@pytest.mark.parametrize(
    "body",
    [
        f"{X} vf = Cast <to = 1> (v) f = Add(xf, vf) {QUANTIZE}",
        f"{BOTH} f = Add(xf, vf) y = QuantizeLinear(f, si, zi)",
    ],
    ids=["one is no quantized value", "result of another type"],
)
def test_other_sums_stay(body: str) -> None:
    assert_body_unchanged(
        ELEMENTWISE, body, "int8[2, 3] y" if "zi" in body else "uint8[2, 3] y", PAIR
    )


# --- what changes nothing -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "outputs"),
    [
        ("MaxPool <kernel_shape = [2, 2]> ({}, )", "uint8[1, 2, 6, 6] y"),
        ("Transpose <perm = [0, 2, 3, 1]> ({}, )", "uint8[1, 7, 7, 2] y"),
        ("Reshape({}, shape)", "uint8[2, 49] y"),
        ("Flatten({}, )", "uint8[1, 98] y"),
    ],
)
def test_operators_that_move_elements_move_quantized_ones(operation: str, outputs: str) -> None:
    inside, outside = (operation.format(name).replace(", )", ")") for name in ("xf", "x"))
    assert_body_becomes(
        ELIMINATIONS, f"{X} f = {inside} y = QuantizeLinear(f, sx, zx)", f"y = {outside}", outputs
    )


def test_quantizing_what_was_dequantized_gives_it_back() -> None:
    assert_body_becomes(
        ELIMINATIONS,
        f"{X} q = QuantizeLinear(xf, sx, zx) y = MaxPool <kernel_shape = [2, 2]> (q)",
        "y = MaxPool <kernel_shape = [2, 2]> (x)",
        "uint8[1, 2, 6, 6] y",
    )


@pytest.mark.parametrize(
    "body",
    [
        f"{X} f = MaxPool <kernel_shape = [2, 2]> (xf) y = QuantizeLinear(f, s2, zx)",
        f"{X} f = MaxPool <kernel_shape = [2, 2]> (xf) y = QuantizeLinear(f, sx, z2)",
        f"{X} f = AveragePool <kernel_shape = [2, 2]> (xf) y = QuantizeLinear(f, sx, zx)",
    ],
    ids=["another scale", "another zero point", "operator computes"],
)
def test_what_changes_numbers_stays(body: str) -> None:
    assert_body_unchanged(ELIMINATIONS, body, "uint8[1, 2, 6, 6] y")


@pytest.mark.parametrize(
    "quantize", ["q = QuantizeLinear(xf, s2, zx)", "q = QuantizeLinear(xf, sx, z2)"]
)
def test_other_parameters_are_no_pair(quantize: str) -> None:
    assert_body_unchanged(ELIMINATIONS, f"{X} {quantize} y = Abs(q)", "uint8[1, 2, 7, 7] y")


F = "float[2, 3] x"


@pytest.mark.parametrize(
    ("activation", "quantize"),
    [
        ("Relu(x)", "QuantizeLinear({}, sy, zy0)"),
        ("Clip(x, low)", "QuantizeLinear({}, sy, zy0)"),
        ("Clip(x, low, lots)", "QuantizeLinear({}, sx, zy0)"),
    ],
)
def test_activation_whose_range_is_the_quantized_ones_goes(activation: str, quantize: str) -> None:
    assert_body_becomes(
        ELIMINATIONS,
        f"a = {activation} y = {quantize.format('a')}",
        f"y = {quantize.format('x')}",
        "uint8[2, 3] y",
        F,
    )


@pytest.mark.parametrize(
    "body",
    [
        "a = Relu(x) y = QuantizeLinear(a, sy, zy)",
        "a = Clip(x, low, six) y = QuantizeLinear(a, sy, zy0)",
        "a = Relu(x) y = QuantizeLinear(a, si, zi)",
    ],
    ids=["zero point above the least", "bound within the range", "signed"],
)
def test_activation_that_quantizing_does_not_do_stays(body: str) -> None:
    assert_body_unchanged(
        ELIMINATIONS, body, "int8[2, 3] y" if "zi" in body else "uint8[2, 3] y", F
    )


def test_an_activation_that_others_use_stays() -> None:
    assert_body_unchanged(
        ELIMINATIONS,
        "a = Relu(x) y = QuantizeLinear(a, sy, zy0) n = Neg(a)",
        "uint8[2, 3] y, float[2, 3] n",
        F,
    )


# --- dynamic quantization and tables --------------------------------------------------------------

QUANTIZED = "q, s, z = DynamicQuantizeLinear(x)"
PRODUCT = "i = MatMulInteger(q, m, z, z1) c = Cast <to = 1> (i) t = Mul(s, s1) f = Mul(c, t)"


@pytest.mark.parametrize(
    ("tail", "output", "bias"),
    [("", "f", ""), ("y = Add(f, row)", "y", ", row"), ("y = Add(row, f)", "y", ", row")],
)
def test_dynamically_quantized_product_becomes_one_node(tail: str, output: str, bias: str) -> None:
    assert_body_becomes(
        DYNAMIC,
        f"{QUANTIZED} {PRODUCT} {tail}",
        f"{output} = com.microsoft.DynamicQuantizeMatMul(x, m, s1, z1{bias})",
        f"float[2, 3] {output}",
        "float[2, 4] x",
    )


def test_products_of_one_quantized_input_share_it() -> None:
    second = (
        "i2 = MatMulInteger(q, m, z, z1) c2 = Cast <to = 1> (i2) t2 = Mul(sw, s) f2 = Mul(t2, c2)"
    )
    assert_body_becomes(
        DYNAMIC,
        f"{QUANTIZED} {PRODUCT} {second}",
        f"""{QUANTIZED} f = com.microsoft.MatMulIntegerToFloat(q, m, s, s1, z, z1)
            f2 = com.microsoft.MatMulIntegerToFloat(q, m, s, sw, z, z1)""",
        "float[2, 3] f, float[2, 3] f2",
        "float[2, 4] x",
    )


@pytest.mark.parametrize(
    ("body", "outputs"),
    [
        (f"{QUANTIZED} {PRODUCT}", "float[2, 3] f, float[2, 3] c"),
        (f"{QUANTIZED} {PRODUCT.replace('Mul(s, s1)', 'Mul(s1, s1)')}", "float[2, 3] f"),
        (f"{QUANTIZED} {PRODUCT.replace('(q, m, z, z1)', '(q, m)')}", "float[2, 3] f"),
        (f"{QUANTIZED} i = MatMulInteger(q, m, z, z1) c = Cast <to = 11> (i) t = Cast <to = 11> (s) f = Mul(c, t)",
         "double[2, 3] f"),
    ],
    ids=["sum is an output", "other scales", "no zero point", "double"],
)  # fmt: skip
def test_other_integer_products_stay(body: str, outputs: str) -> None:
    assert_body_unchanged(DYNAMIC, body, outputs, "float[2, 4] x")


def test_rows_of_a_table_are_gathered_before_they_are_dequantized() -> None:
    assert_body_becomes(
        GATHER,
        "mf = DequantizeLinear(m, s1, z1) y = Gather(mf, ids)",
        "y_quantized__0 = Gather(m, ids) y = DequantizeLinear(y_quantized__0, s1, z1)",
        "float[2, 3] y",
        "float[2] unused",
    )


def test_a_table_with_a_scale_per_row_stays() -> None:
    assert_body_unchanged(
        GATHER,
        "mf = DequantizeLinear <axis = 0> (m, sv) y = Gather(mf, ids)",
        "float[2, 3] y",
        "float[2] unused",
    )


@pytest.mark.parametrize(
    ("nodes", "kind"),
    [
        ("{f} {v} y = MatMul(f, v)", "float16"),
        ("{f} {v} m = MatMul(f, v) y = QuantizeLinear(m, s, z)", "uint8"),
        ("{f} {v} m = Add(f, v) y = QuantizeLinear(m, s, z)", "uint8"),
        ("{f} q = QuantizeLinear(f, s, z) y = Max(q, x)", "uint8"),
    ],
)
def test_values_that_are_dequantized_to_float16_stay_float16(nodes: str, kind: str) -> None:
    """Since opset 23 a node may state a type that its scale does not have."""
    sides = {
        "f": "f = DequantizeLinear<output_dtype = 10>(x, s, z)",
        "v": "v = DequantizeLinear<output_dtype = 10>(w, s, z)",
    }
    model = load_model(
        onnx.parser.parse_model(f"""<ir_version: 11, opset_import: ["" : 24, "com.microsoft" : 1]>
        g (uint8[2, 2] x) => ({kind}[2, 2] y)
        <float s = {{0.5}}, uint8 z = {{9}}, uint8[2, 2] w = {{1, 2, 3, 4}}>
        {{ {nodes.format(**sides)} }}""")
    )
    infer_types(model)
    fusions = rules(QDQ_MATMUL_FUSION, QDQ_ELEMENTWISE_FUSION, QDQ_PAIR_ELIMINATION)
    fusions.apply(model.graph, EVERY_KERNEL)
    assert not fusions.changes
