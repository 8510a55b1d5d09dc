"""The quantized operators of com.microsoft, held against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from ortpkg.runtime.kernels.op_kernel import Tensor
from tests.kernels.node_runner import as_node, compute_node, run_op
from tests.kernels.onnxruntime_peer import run_on_onnxruntime

DTYPES = [np.uint8, np.int8]
SCALE_A, SCALE_B, SCALE_Y = (np.array(scale, np.float32) for scale in (0.021, 0.013, 0.037))


def codes(*shape: int, dtype: Any = np.uint8, seed: int = 0) -> Tensor:
    limits = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(limits.min, limits.max + 1, shape).astype(dtype)


def point(value: int, dtype: Any) -> Tensor:
    return np.array(value, dtype)


def ours(op_type: str, *inputs: Tensor | None, **attributes: Any) -> Any:
    return run_op(op_type, *inputs, domain="com.microsoft", **attributes)


def assert_same_codes(
    op_type: str, *inputs: Tensor | None, slack: int = 0, **attributes: Any
) -> None:
    """Equal to onnxruntime's result.

    ``slack`` codes apart at most, where it rounds in fixed point.
    """
    found, expected = (
        ours(op_type, *inputs, **attributes),
        run_on_onnxruntime(op_type, *inputs, **attributes),
    )
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert np.abs(found.astype(np.int64) - expected.astype(np.int64)).max(initial=0) <= slack


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op_type", ["QLinearAdd", "QLinearMul"])
def test_binary_operators_broadcast_and_requantize(op_type: str, dtype: Any) -> None:
    a, b = codes(2, 3, 40, dtype=dtype), codes(3, 1, dtype=dtype, seed=1)
    a_side, b_side = (a, SCALE_A, point(7, dtype)), (b, SCALE_B, point(3, dtype))
    assert_same_codes(op_type, *a_side, *b_side, SCALE_Y, point(5, dtype), slack=1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("op_type", "attributes"), [("QLinearSigmoid", {}), ("QLinearLeakyRelu", {"alpha": 0.2})]
)
def test_functions_of_bytes(op_type: str, attributes: dict[str, Any], dtype: Any) -> None:
    x = codes(4, 100, dtype=dtype)
    y_scale = np.array(1 / 128, np.float32) if op_type == "QLinearSigmoid" else SCALE_Y
    assert_same_codes(op_type, x, SCALE_A, point(9, dtype), y_scale, point(0, dtype), **attributes)


@pytest.mark.parametrize("opset", [12, 13])
def test_softmax_of_bytes(opset: int) -> None:
    inputs = (
        codes(2, 5, 6),
        SCALE_A,
        point(100, np.uint8),
        np.array(1 / 256, np.float32),
        point(0, np.uint8),
    )
    names = [f"x{slot}" for slot in range(len(inputs))]
    proto = helper.make_node(
        "QLinearSoftmax", names, ["y"], domain="com.microsoft", axis=1, opset=opset
    )
    (found,) = compute_node(as_node(proto, {"com.microsoft": 1}), inputs, 1)
    expected = run_on_onnxruntime("QLinearSoftmax", *inputs, axis=1, opset=opset)
    assert np.abs(found.astype(np.int64) - expected).max() <= 1


@pytest.mark.parametrize("channels_last", [0, 1])
def test_global_average_pool_means_over_the_spatial_axes(channels_last: int) -> None:
    inputs = (codes(2, 6, 7, 5), SCALE_A, point(12, np.uint8), SCALE_B, point(3, np.uint8))
    assert_same_codes("QLinearGlobalAveragePool", *inputs, channels_last=channels_last, slack=1)


def test_concat_requantizes_each_part() -> None:
    zero = point(4, np.uint8)
    parts = (codes(2, 3), SCALE_Y, zero, codes(2, 5, seed=1), SCALE_A, point(130, np.uint8))
    assert_same_codes("QLinearConcat", SCALE_Y, zero, *parts, axis=1)


def test_concat_says_when_a_part_is_incomplete() -> None:
    with pytest.raises(
        ValueError, match="parts come as tensor, scale and zero point, but there are 2 inputs"
    ):
        ours("QLinearConcat", SCALE_Y, point(4, np.uint8), codes(2, 3), SCALE_Y, axis=1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_onnx_defined_later_computes_the_same_under_its_first_name(dtype: Any) -> None:
    scales, points = SCALE_A * np.arange(1, 5, dtype=np.float32), codes(4, dtype=dtype)
    values = np.random.default_rng(2).normal(size=(2, 3, 4)).astype(np.float32)
    assert_same_codes("QuantizeLinear", values, scales, points, axis=2)
    stored = codes(2, 3, 4, dtype=dtype), scales, points
    found = ours("DequantizeLinear", *stored, axis=2)
    np.testing.assert_array_equal(found, run_on_onnxruntime("DequantizeLinear", *stored, axis=2))


@pytest.mark.parametrize("shape", [(1, 4, 6, 6), (1, 6, 6, 4)])
def test_convolution_takes_channels_first_or_last(shape: tuple[int, ...]) -> None:
    x, w = (codes(*shape), SCALE_A, point(100, np.uint8)), (codes(3, 4, 3, 3), SCALE_B)
    y = point(128, np.uint8), np.array(0.4, np.float32), point(90, np.uint8)
    is_last = int(shape[3] == 4)
    assert_same_codes("QLinearConv", *x, *w, *y, pads=[1, 1, 1, 1], channels_last=is_last)
