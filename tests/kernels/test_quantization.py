"""Quantization of tensors, and quantized products and convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ortpkg.graph.types import ElementType, numpy_dtype
from ortpkg.runtime.kernels.integer_gemm import (
    IntegerMatrix,
    as_int32,
    exact_matmul,
    integer_matrix,
)
from ortpkg.runtime.kernels.op_kernel import Tensor
from tests.kernels.node_runner import run_op

SCALE = np.array(0.5, np.float32)


def floats(*values: float) -> Tensor:
    return np.array(values, np.float32)


def test_quantize_rounds_halves_to_even_and_saturates() -> None:
    x = floats(0.25, 0.75, -0.25, 1e9, -1e9)
    assert run_op("QuantizeLinear", x, SCALE, np.int8(0)).tolist() == [0, 2, 0, 127, -128]


def test_quantize_makes_nan_the_least_integer() -> None:
    assert run_op("QuantizeLinear", floats(np.nan), SCALE, np.array(3, np.uint8)).tolist() == [0]


def test_zero_point_of_16_bits_survives_half_precision() -> None:
    x, scale = np.array([1.0], np.float16), np.array(1.0, np.float16)
    assert run_op("QuantizeLinear", x, scale, np.array(60001, np.uint16)).tolist() == [60002]


def test_input_is_left_as_it_was() -> None:
    x = floats(1, 2)
    run_op("QuantizeLinear", x, np.array(1.0, np.float32), np.array(0, np.uint8))
    assert x.tolist() == [1, 2]


@pytest.mark.parametrize(("size", "blocks"), [(6, 2), (7, 3)])
def test_blocks_need_not_fill_the_axis(size: int, blocks: int) -> None:
    x = np.arange(2 * size, dtype=np.float32).reshape(2, size)
    scale = np.array([[1, 2, 4], [4, 2, 1]], np.float32)[:, :blocks]
    y = run_op("QuantizeLinear", x, scale, axis=1, block_size=3)
    assert y.tolist() == np.rint(x / np.repeat(scale, 3, axis=1)[:, :size]).tolist()


@pytest.mark.parametrize(
    ("scale", "attributes", "problem"),
    [
        (
            np.ones(3, np.float32),
            {"axis": 1},
            r"scales per index of axis 1 of shape \(2, 4\) have shape \(4,\)",
        ),
        (
            np.ones((2, 4), np.float32),
            {"axis": 1, "block_size": 2},
            r"have shape \(2, 2\), not \(2, 4\)",
        ),
        (np.ones(3, np.float32), {"axis": 5}, "axis 5 is not in"),
    ],
)
def test_scales_that_do_not_fit_are_refused(
    scale: Tensor, attributes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        run_op("QuantizeLinear", np.zeros((2, 4), np.float32), scale, **attributes)


def test_dequantize_refuses_a_zero_point_of_another_type() -> None:
    with pytest.raises(ValueError, match="x has type uint8, but its zero point has type int8"):
        run_op("DequantizeLinear", np.zeros(2, np.uint8), SCALE, np.array(0, np.int8))


def test_dequantize_takes_the_zero_point_off_before_it_rounds() -> None:
    x, zero = np.array([2**31 - 1], np.int32), np.array(2**31 - 3, np.int32)
    assert run_op("DequantizeLinear", x, SCALE, zero).tolist() == [1.0]


@pytest.mark.parametrize(
    "element_type", [ElementType.INT4, ElementType.UINT4, ElementType.INT16, ElementType.UINT16]
)
def test_round_trip_gives_every_code_back(element_type: ElementType) -> None:
    dtype = numpy_dtype(element_type)
    codes = (
        np.arange(-8, 8).astype(dtype)
        if element_type in (ElementType.INT4, ElementType.INT16)
        else np.arange(16).astype(dtype)
    )
    real = run_op("DequantizeLinear", codes, SCALE)
    back = run_op("QuantizeLinear", real, SCALE, output_dtype=int(element_type))
    assert back.dtype == dtype
    assert back.astype(int).tolist() == codes.astype(int).tolist()


def test_dynamic_quantization_of_zeros_has_a_scale() -> None:
    y, scale, zero = run_op("DynamicQuantizeLinear", np.zeros(3, np.float32), outputs=3)
    assert (y.tolist(), scale.item(), zero.item()) == ([0, 0, 0], 1.0, 0)


# --- exact products -------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [10, 300, 3000])
@pytest.mark.parametrize("constant_slots", [(), (1, 3)])
def test_matmul_integer_is_exact_at_any_depth(depth: int, constant_slots: tuple[int, ...]) -> None:
    random = np.random.default_rng(depth)
    a = random.integers(200, 256, (2, 3, depth)).astype(np.uint8)
    b = random.integers(-128, -100, (depth, 5)).astype(np.int8)
    a_zero, b_zero = np.array([0, 5, 255], np.uint8), np.arange(5).astype(np.int8)
    found = run_op("MatMulInteger", a, b, a_zero, b_zero, constant_slots=constant_slots)
    expected = (a.astype(np.int64) - a_zero[:, None]) @ (b.astype(np.int64) - b_zero)
    assert found.dtype == np.int32
    assert (found == expected).all()


@pytest.mark.parametrize("constant_slots", [(), (1, 3)])
def test_product_of_no_depth_is_zero_whatever_the_zero_points(
    constant_slots: tuple[int, ...],
) -> None:
    a, b = np.zeros((2, 0), np.uint8), np.zeros((0, 3), np.int8)
    points = (np.array([1, 2], np.uint8), np.array([3, 4, 5], np.int8))
    assert not run_op("MatMulInteger", a, b, *points, constant_slots=constant_slots).any()
    inputs = (a, np.float32(1), points[0], b, np.float32(1), points[1], np.float32(1), np.uint8(7))
    slots = (3, 5) if constant_slots else ()
    assert (run_op("QLinearMatMul", *inputs, constant_slots=slots) == 7).all()


@pytest.mark.parametrize("constant_slots", [(), (1, 3)])
def test_integer_convolution_of_no_channels_is_zero_whatever_the_zero_points(
    constant_slots: tuple[int, ...],
) -> None:
    x, w = np.zeros((1, 0, 4), np.uint8), np.zeros((2, 0, 3), np.int8)
    points = np.uint8(1), np.array([3, 4], np.int8)
    made = run_op("ConvInteger", x, w, *points, constant_slots=constant_slots)
    assert made.shape == (1, 2, 2)
    assert not made.any()


@pytest.mark.parametrize("depth", [0, 3])
def test_zero_points_that_widen_a_factor_are_refused(depth: int) -> None:
    a, b = np.zeros((2, depth), np.uint8), np.zeros((depth, 3), np.int8)
    points = np.zeros((5, depth, 3), np.int8)
    with pytest.raises(ValueError, match="zero points of shape"):
        run_op("MatMulInteger", a, b, np.uint8(0), points)


def test_product_that_float32_cannot_hold_is_made_of_pieces() -> None:
    depth = 2000
    a, matrix = (
        np.full((1, depth), 255, np.float32),
        integer_matrix(np.full((depth, 1), -127, np.int8), None),
    )
    product = exact_matmul(a, 255.0, matrix)
    assert product.dtype == np.float64
    assert product.item() == -255 * 127 * depth


def test_product_that_float32_can_hold_stays_in_it() -> None:
    matrix = IntegerMatrix(np.ones((4, 1), np.float32), 1.0, 4.0)
    assert exact_matmul(np.ones((1, 4), np.float32), 255.0, matrix).dtype == np.float32


def test_accumulator_wraps_around_like_int32() -> None:
    assert as_int32(np.array([2.0**31, -(2.0**31) - 1])).tolist() == [-(2**31), 2**31 - 1]


@pytest.mark.parametrize("group", [1, 2, 6])
@pytest.mark.parametrize("auto_pad", ["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"])
def test_convolution_agrees_with_the_float_one(group: int, auto_pad: str) -> None:
    random = np.random.default_rng(group)
    x = random.integers(0, 256, (2, 6, 9, 8)).astype(np.uint8)
    w = random.integers(-128, 128, (6, 6 // group, 3, 2)).astype(np.int8)
    x_zero, w_zero = np.array(100, np.uint8), random.integers(-5, 5, 6).astype(np.int8)
    attributes: dict[str, Any] = {"group": group, "strides": [2, 1], "auto_pad": auto_pad}
    if auto_pad == "NOTSET":
        attributes |= {"pads": [1, 0, 2, 1], "dilations": [2, 1]}
    found = run_op("ConvInteger", x, w, x_zero, w_zero, **attributes)
    real_w = w.astype(np.float64) - w_zero.reshape(-1, 1, 1, 1)
    expected = run_op("Conv", x.astype(np.float64) - 100, real_w, **attributes)
    assert (found == expected).all()


def test_convolution_adds_its_bias_before_it_rounds() -> None:
    x, w = np.full((1, 1, 1, 2), 3, np.uint8), np.array([2, -1], np.int8).reshape(2, 1, 1, 1)
    one, zero, bias = np.array(1.0, np.float32), np.array(0, np.uint8), np.array([-1, 10], np.int32)
    y = run_op(
        "QLinearConv",
        x,
        one,
        zero,
        w,
        one,
        np.array(0, np.int8),
        np.array(2.0, np.float32),
        zero,
        bias,
    )
    assert y.tolist() == [[[[2, 2]], [[4, 4]]]]  # (6 - 1) / 2 and (-3 + 10) / 2, halves to even


def test_convolution_refuses_weights_of_other_channels() -> None:
    with pytest.raises(ValueError, match=r"do not fit x of shape \(1, 3, 4, 4\)"):
        run_op("ConvInteger", np.zeros((1, 3, 4, 4), np.uint8), np.zeros((1, 2, 1, 1), np.uint8))


def test_convolution_refuses_a_kernel_larger_than_its_input() -> None:
    with pytest.raises(
        ValueError, match="a window reaching over 4 elements does not fit an axis of 2 elements"
    ):
        run_op("ConvInteger", np.zeros((1, 1, 2, 2), np.uint8), np.zeros((1, 1, 4, 4), np.uint8))
