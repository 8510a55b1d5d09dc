"""Factors and biases move into matrix products, padding and residuals into convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ortpkg.engine.transformers.activation_fusion import ACTIVATION_FUSION, RESIDUAL_FUSION
from ortpkg.engine.transformers.matmul_bias_fusion import MATMUL_BIAS_FUSION
from ortpkg.engine.transformers.matmul_scale_fusion import MATMUL_SCALE_FUSION
from ortpkg.engine.transformers.pad_fusion import PAD_FUSION
from ortpkg.engine.transformers.quick_gelu_fusion import QUICK_GELU_FUSION
from ortpkg.engine.transformers.reshape_pair_elimination import RESHAPE_PAIR_ELIMINATION
from ortpkg.engine.transformers.rule_driver import RuleDriver
from ortpkg.engine.transformers.sum_to_add import SUM_TO_ADD
from ortpkg.engine.transformers.transform_context import TransformContext
from ortpkg.graph.onnx_reader import load_model
from ortpkg.shapes.inference import infer_types
from tests.engine.transformers.transformation import (
    EVERY_KERNEL,
    assert_becomes,
    assert_unchanged,
    named_constants,
    parse,
)

SCALE, BIAS = RuleDriver("test", [MATMUL_SCALE_FUSION]), RuleDriver("test", [MATMUL_BIAS_FUSION])
PAD, SUM = RuleDriver("test", [PAD_FUSION]), RuleDriver("test", [SUM_TO_ADD])
ACTIVATION = RuleDriver("test", [QUICK_GELU_FUSION, ACTIVATION_FUSION])
RESHAPES = RuleDriver("test", [RESHAPE_PAIR_ELIMINATION])
RESIDUAL = RuleDriver("test", [RESIDUAL_FUSION])


def weights(*texts: str) -> dict[str, Any]:
    """The constants that the texts name."""
    generator = np.random.default_rng(9)
    arrays: dict[str, Any] = {
        "half": np.float32(0.5), "four": np.float32(4), "vector": np.array([0.5], np.float32), "none": np.float32(0),
        "w": generator.standard_normal((4, 5)).astype(np.float32), "row": np.ones(5, np.float32),
        "k": generator.standard_normal((3, 2, 3, 3)).astype(np.float32), "b": np.ones(3, np.float32),
        "pads": np.array([0, 0, 1, 2, 0, 0, 0, 1]), "channels": np.array([0, 1, 1, 1, 0, 0, 1, 1]),
        "crop": np.array([0, 0, -1, 0, 0, 0, 0, 0]), "one": np.float32(1), "spatial": np.array([1, 1, 1, 1]),
        "axes": np.array([2, 3]), "wide": np.array([2, 3, 4]), "narrow": np.array([-1, 4]), "flat": np.array([-1]),
    }  # fmt: skip
    return named_constants(arrays, *texts)


def assert_body_becomes(
    transformer: RuleDriver, inputs: str, before: str, after: str, outputs: str, **header: str
) -> None:
    lead = header.get("header", "")
    assert_becomes(
        transformer,
        before=f"{lead}g ({inputs}) => ({outputs}) {{ {before} }}",
        after=f"{lead}g ({inputs}) => ({outputs}) {{ {after} }}",
        weights=weights(before, after),
        context=EVERY_KERNEL,
    )


def assert_body_unchanged(transformer: RuleDriver, inputs: str, body: str, outputs: str) -> None:
    assert_unchanged(
        transformer,
        f"g ({inputs}) => ({outputs}) {{ {body} }}",
        weights=weights(body),
        context=EVERY_KERNEL,
    )


# --- factors --------------------------------------------------------------------------------------

PAIR = "float[2, 3, 4] x, float[2, 4, 5] z, float u, float[2, 1, 1] v"
PRODUCT = "float[2, 3, 5] y"


@pytest.mark.parametrize(
    ("body", "alpha"),
    [
        ("p = MatMul(x, z) y = Mul(p, half)", 0.5),
        ("p = MatMul(x, z) y = Div(p, four)", 0.25),
        ("p = MatMul(x, z) y = Mul(vector, p)", 0.5),
        ("a = Mul(x, half) y = MatMul(a, z)", 0.5),
        ("a = Div(z, four) y = MatMul(x, a)", 0.25),
        ("a = Mul(half, x) b2 = Mul(z, half) p = MatMul(a, b2) y = Mul(p, half)", 0.125),
    ],
)
def test_constant_factors_become_the_products_alpha(body: str, alpha: float) -> None:
    assert_body_becomes(
        SCALE, PAIR, body, f"y = com.microsoft.FusedMatMul <alpha = {alpha}> (x, z)", PRODUCT
    )


@pytest.mark.parametrize(
    ("body", "outputs"),
    [
        ("p = MatMul(x, z) y = Mul(p, u)", PRODUCT),
        ("p = MatMul(x, z) y = Mul(p, v)", PRODUCT),
        ("p = MatMul(x, z) y = Div(half, p)", PRODUCT),
        ("p = MatMul(x, z) y = Div(p, none)", PRODUCT),
        ("p = MatMul(x, z) y = Mul(p, half)", f"{PRODUCT}, float[2, 3, 5] p"),
        ("a = Mul(x, half) y = MatMul(a, z)", f"{PRODUCT}, float[2, 3, 4] a"),
        ("a = Mul(x, half) y = MatMul(a, z) n = Neg(a)", f"{PRODUCT}, float[2, 3, 4] n"),
    ],
    ids=[
        "not constant", "no scalar", "product is the divisor", "division by zero", "product is an output",
        "scaled factor is an output", "scaled factor is used elsewhere",
    ],
)  # fmt: skip
def test_other_factors_stay(body: str, outputs: str) -> None:
    assert_body_unchanged(SCALE, PAIR, body, outputs)


def test_factors_stay_in_float16_where_each_is_rounded() -> None:
    arrays = {"half": np.array(0.5, np.float16)}
    assert_unchanged(
        SCALE,
        "g (float16[3, 4] x, float16[4, 5] z) => (float16[3, 5] y) { a = Mul(x, half) y = MatMul(a,"
        " z) }",
        weights=arrays,
        context=EVERY_KERNEL,
    )


def test_factors_stay_where_the_provider_has_no_kernel() -> None:
    body = "p = MatMul(x, z) y = Mul(p, half)"
    assert_unchanged(
        SCALE,
        f"g ({PAIR}) => ({PRODUCT}) {{ {body} }}",
        weights=weights(body),
        context=TransformContext(),
    )


# --- biases ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("addition", ["Add(p, row)", "Add(row, p)"])
@pytest.mark.parametrize("shape", ["2, 3", "N, 3", "1, 2, 3"])
def test_bias_of_rows_becomes_gemms(addition: str, shape: str) -> None:
    assert_body_becomes(
        BIAS,
        f"float[{shape}, 4] x",
        f"p = MatMul(x, w) y = {addition}",
        """x_rows__0 = Reshape(x, x_rows__0_shape__0) y_rows__0 = Gemm(x_rows__0, w, row)
           y = Reshape(y_rows__0, y_shape__0)""",
        f"float[{shape}, 5] y",
    )


@pytest.mark.parametrize(
    ("inputs", "body", "outputs"),
    [
        ("float[3, 4] x", "p = MatMul(x, w) y = Add(p, row)", "float[3, 5] y"),
        ("float[2, 3, 4] x, float[4, 1] z", "p = MatMul(x, z) y = Add(p, row)", "float[2, 3, 5] y"),
        (
            "float[2, 3, 4] x, float[2, 4, 5] z",
            "p = MatMul(x, z) y = Add(p, row)",
            "float[2, 3, 5] y",
        ),
        ("float[2, 3, 4] x, float[3, 5] z", "p = MatMul(x, w) y = Add(p, z)", "float[2, 3, 5] y"),
        ("float[M, N, 4] x", "p = MatMul(x, w) y = Add(p, row)", "float[M, N, 5] y"),
        (
            "float[2, 3, 4] x",
            "p = MatMul(x, w) y = Add(p, row)",
            "float[2, 3, 5] y, float[2, 3, 5] p",
        ),
    ],
    ids=[
        "a matrix",
        "one column",
        "batches of matrices",
        "no row",
        "two unknown sizes",
        "product is an output",
    ],
)
def test_other_sums_behind_products_stay(inputs: str, body: str, outputs: str) -> None:
    assert_body_unchanged(BIAS, inputs, body, outputs)


# --- convolutions ---------------------------------------------------------------------------------

IMAGE = "float[1, 2, 7, 7] x, float[1, 3, 5, 5] r"


@pytest.mark.parametrize(
    ("pad", "conv", "after", "outputs"),
    [
        ("Pad(x, pads)", "Conv(a, k)", "<auto_pad = \"NOTSET\", pads = [1, 2, 0, 1]>", "float[1, 3, 6, 8] y"),
        ("Pad(x, pads, none)", "Conv <pads = [1, 1, 1, 1]> (a, k)", "<auto_pad = \"NOTSET\", pads = [2, 3, 1, 2]>",
         "float[1, 3, 8, 10] y"),
        ('Pad <mode = "constant"> (x, pads)', 'Conv <auto_pad = "VALID"> (a, k)',
         "<auto_pad = \"NOTSET\", pads = [1, 2, 0, 1]>", "float[1, 3, 6, 8] y"),
    ],
)  # fmt: skip
def test_padding_moves_into_the_convolution(pad: str, conv: str, after: str, outputs: str) -> None:
    assert_body_becomes(PAD, IMAGE, f"a = {pad} y = {conv}", f"y = Conv {after} (x, k)", outputs)


def test_padding_by_attribute_moves_into_the_convolution() -> None:
    assert_body_becomes(
        PAD,
        "float[1, 2, 7, 7] x",
        "a = Pad <pads = [0, 0, 1, 2, 0, 0, 0, 1]> (x) y = Conv(a, k)",
        'y = Conv <auto_pad = "NOTSET", pads = [1, 2, 0, 1]> (x, k)',
        "float[1, 3, 6, 8] y",
        header='<ir_version: 5, opset_import: ["" : 9]>\n',
    )


@pytest.mark.parametrize(
    ("body", "outputs"),
    [
        ("a = Pad(x, pads, one) y = Conv(a, k)", "float[1, 3, 6, 8] y"),
        ('a = Pad <mode = "edge"> (x, pads) y = Conv(a, k)', "float[1, 3, 6, 8] y"),
        ("a = Pad(x, spatial, none, axes) y = Conv(a, k)", "float[1, 3, 7, 7] y"),
        ('a = Pad(x, pads) y = Conv <auto_pad = "SAME_UPPER"> (a, k)', "float[1, 3, 8, 10] y"),
        ("a = Pad(x, pads) y = Conv(a, k)", "float[1, 3, 6, 8] y, float[1, 2, 8, 10] a"),
    ],
    ids=["of ones", "of edges", "of some axes", "convolution pads by itself", "is an output"],
)
def test_other_padding_stays(body: str, outputs: str) -> None:
    assert_body_unchanged(PAD, IMAGE, body, outputs)


def test_cropping_stays() -> None:
    text = f"g ({IMAGE}) => (float[1, 3, 4, 5] y) {{ a = Pad(x, crop) y = Conv(a, k) }}"
    model = load_model(parse(text, weights(text)))
    infer_types(model)

    assert not PAD.apply(model.graph, EVERY_KERNEL)


@pytest.mark.parametrize("sum_", ["Add(c, r)", "Add(r, c)"])
@pytest.mark.parametrize(("inputs", "given"), [("x, k, b", "x, k, b, r"), ("x, k", 'x, k, "", r')])
def test_residual_moves_into_the_convolution(sum_: str, inputs: str, given: str) -> None:
    assert_body_becomes(
        RESIDUAL,
        IMAGE,
        f"c = Conv({inputs}) y = {sum_}",
        f"y = com.microsoft.FusedConv ({given})",
        "float[1, 3, 5, 5] y",
    )


def test_residual_that_broadcasts_stays() -> None:
    assert_body_unchanged(
        RESIDUAL,
        "float[1, 2, 7, 7] x, float[3, 1, 1] r",
        "c = Conv(x, k) y = Add(c, r)",
        "float[1, 3, 5, 5] y",
    )


@pytest.mark.parametrize(
    ("activation", "attributes"),
    [
        ("s = Sigmoid(c) y = Mul(c, s)", 'activation = "QuickGelu", activation_params = [1.0]'),
        ("y = HardSwish(c)", 'activation = "HardSwish"'),
    ],
)
def test_swish_moves_into_the_convolution(activation: str, attributes: str) -> None:
    assert_body_becomes(
        ACTIVATION,
        IMAGE,
        f"c = Conv(x, k, b) {activation}",
        f"y = com.microsoft.FusedConv <{attributes}> (x, k, b)",
        "float[1, 3, 5, 5] y",
    )


def test_sum_of_two_is_an_addition_and_of_one_nothing() -> None:
    assert_body_becomes(
        SUM, IMAGE, "a = Sum(x) y = Sum(a, x)", "y = Add(x, x)", "float[1, 2, 7, 7] y"
    )


def test_sum_of_three_stays() -> None:
    assert_body_unchanged(SUM, IMAGE, "y = Sum(x, x, x)", "float[1, 2, 7, 7] y")


# --- reshapes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "operator", ["Tanh(a)", "LeakyRelu <alpha = 0.5> (a)", "com.microsoft.FastGelu(a)"]
)
def test_reshapes_round_an_elementwise_operator_go(operator: str) -> None:
    assert_body_becomes(
        RESHAPES,
        "float[6, 4] x",
        f"a = Reshape(x, wide) b0 = {operator} y = Reshape(b0, narrow)",
        f"y = {operator.replace('(a)', '(x)')}",
        "float[6, 4] y",
    )


@pytest.mark.parametrize(
    ("body", "outputs"),
    [
        ("a = Reshape(x, wide) b0 = Softmax(a) y = Reshape(b0, narrow)", "float[6, 4] y"),
        ("a = Reshape(x, wide) b0 = Tanh(a) y = Reshape(b0, flat)", "float[24] y"),
        (
            "a = Reshape(x, wide) b0 = Tanh(a) y = Reshape(b0, narrow)",
            "float[6, 4] y, float[2, 3, 4] a",
        ),
        (
            "a = Reshape(x, wide) b0 = Tanh(a) y = Reshape(b0, narrow)",
            "float[6, 4] y, float[2, 3, 4] b0",
        ),
    ],
    ids=["operator over an axis", "another shape", "input is an output", "result is an output"],
)
def test_other_reshapes_stay(body: str, outputs: str) -> None:
    assert_body_unchanged(RESHAPES, "float[6, 4] x", body, outputs)
