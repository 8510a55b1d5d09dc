"""NhwcMaxPool and QLinearAveragePool of com.microsoft, held against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ortpkg.foundations.errors import LimitExceededError
from ortpkg.runtime.kernels.op_kernel import Tensor
from tests.kernels.node_runner import run_op
from tests.kernels.onnxruntime_peer import run_on_onnxruntime

DTYPES = [np.uint8, np.int8]
SCALE_X, SCALE_Y = np.array(0.021, np.float32), np.array(0.017, np.float32)
WINDOWS: dict[str, dict[str, Any]] = {
    "kernel alone": {"kernel_shape": [2, 3]},
    "strides and pads": {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    "uneven pads": {"kernel_shape": [3, 2], "strides": [1, 2], "pads": [0, 1, 2, 0]},
    "ceil mode": {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1},
    "ceil mode with pads": {
        "kernel_shape": [3, 3],
        "strides": [2, 3],
        "pads": [1, 1, 1, 1],
        "ceil_mode": 1,
    },
    "same upper": {"kernel_shape": [3, 2], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
    "same lower": {"kernel_shape": [2, 3], "strides": [2, 1], "auto_pad": "SAME_LOWER"},
    "valid": {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "VALID"},
}


def codes(*shape: int, dtype: Any = np.uint8) -> Tensor:
    limits = np.iinfo(dtype)
    return (
        np.random.default_rng(len(shape)).integers(limits.min, limits.max + 1, shape).astype(dtype)
    )


def ours(op_type: str, *inputs: Tensor | None, **attributes: Any) -> Any:
    return run_op(op_type, *inputs, domain="com.microsoft", **attributes)


def averaged(x: Tensor, x_point: int | None = 7, y_point: int | None = 3) -> list[Tensor | None]:
    points = [None if point is None else np.array(point, x.dtype) for point in (x_point, y_point)]
    return [x, SCALE_X, points[0], SCALE_Y, points[1]]


def assert_close_codes(found: Tensor, expected: Tensor, slack: int) -> None:
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert np.abs(found.astype(np.int64) - expected.astype(np.int64)).max(initial=0) <= slack


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", WINDOWS)
def test_nhwc_max_pool_takes_the_largest_code_of_each_window(name: str, dtype: Any) -> None:
    x = codes(2, 7, 8, 5, dtype=dtype)
    assert_close_codes(
        ours("NhwcMaxPool", x, **WINDOWS[name]),
        run_on_onnxruntime("NhwcMaxPool", x, **WINDOWS[name]),
        0,
    )


@pytest.mark.parametrize("attributes", [{}, {"dilations": [2], "strides": [3]}, {"pads": [1, 2]}])
def test_nhwc_max_pool_goes_over_one_spatial_axis(attributes: dict[str, Any]) -> None:
    x = codes(3, 11, 4)
    attributes = {"kernel_shape": [3]} | attributes
    assert_close_codes(
        ours("NhwcMaxPool", x, **attributes), run_on_onnxruntime("NhwcMaxPool", x, **attributes), 0
    )


def test_nhwc_max_pool_goes_over_three_spatial_axes() -> None:
    x = codes(2, 5, 6, 4, 3)
    attributes: dict[str, Any] = {
        "kernel_shape": [2, 3, 2],
        "strides": [1, 2, 2],
        "dilations": [2, 1, 1],
    }
    assert_close_codes(
        ours("NhwcMaxPool", x, **attributes), run_on_onnxruntime("NhwcMaxPool", x, **attributes), 0
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("channels_last", [0, 1])
@pytest.mark.parametrize("include_pad", [0, 1])
@pytest.mark.parametrize("name", WINDOWS)
def test_average_pool_means_the_codes_of_each_window(
    name: str, include_pad: int, channels_last: int, dtype: Any
) -> None:
    inputs = averaged(codes(2, 7, 8, 6, dtype=dtype))
    attributes = WINDOWS[name] | {"count_include_pad": include_pad, "channels_last": channels_last}
    expected = run_on_onnxruntime("QLinearAveragePool", *inputs, **attributes)
    assert_close_codes(ours("QLinearAveragePool", *inputs, **attributes), expected, 1)


@pytest.mark.parametrize("shape", [(2, 3, 9), (2, 3, 5, 6, 7), (1, 40, 64, 70)])
def test_average_pool_goes_over_any_number_of_spatial_axes(shape: tuple[int, ...]) -> None:
    inputs = averaged(codes(*shape))
    attributes: dict[str, Any] = {
        "kernel_shape": [3] * (len(shape) - 2),
        "strides": [2] * (len(shape) - 2),
    }
    expected = run_on_onnxruntime("QLinearAveragePool", *inputs, **attributes)
    assert_close_codes(ours("QLinearAveragePool", *inputs, **attributes), expected, 1)


def test_average_pool_without_zero_points_takes_0() -> None:
    x = codes(1, 2, 6, 6)
    attributes = {"kernel_shape": [2, 2]}
    assert_close_codes(
        ours("QLinearAveragePool", *averaged(x, None, None), **attributes),
        ours("QLinearAveragePool", *averaged(x, 0, 0), **attributes),
        0,
    )


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes", "message"),
    [
        ("NhwcMaxPool", [codes(2, 3)], {"kernel_shape": [1]}, "needs spatial dimensions"),
        (
            "NhwcMaxPool",
            [codes(1, 4, 4, 1).astype(np.int32)],
            {"kernel_shape": [1, 1]},
            "uint8 or int8, not int32",
        ),
        ("NhwcMaxPool", [codes(1, 4, 4, 1)], {"kernel_shape": [6, 6]}, "does not fit an axis of 4"),
        ("NhwcMaxPool", [codes(1, 4, 4, 1)], {"kernel_shape": [2]}, "kernel_shape"),
        (
            "QLinearAveragePool",
            averaged(codes(2, 3)),
            {"kernel_shape": [1]},
            "needs spatial dimensions",
        ),
        (
            "QLinearAveragePool",
            [codes(1, 1, 4, 4), np.ones(2, np.float32), None, SCALE_Y, None],
            {"kernel_shape": [2, 2]},
            r"one scale, not scales of shape \(2,\)",
        ),
        (
            "QLinearAveragePool",
            [codes(1, 1, 4, 4), SCALE_X, np.array(3, np.int8), SCALE_Y, None],
            {"kernel_shape": [2, 2]},
            "a zero point of shape .* and type int8 is not one uint8",
        ),
    ],
)
def test_inputs_that_do_not_fit_are_refused(
    op_type: str, inputs: list[Any], attributes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        ours(op_type, *inputs, **attributes)


@pytest.mark.parametrize(("op_type", "inputs"), [("NhwcMaxPool", [codes(1, 0, 4, 2)])])
def test_an_empty_input_gives_an_empty_output(op_type: str, inputs: list[Any]) -> None:
    found = ours(op_type, *inputs, kernel_shape=[1, 1])
    assert found.shape == (1, 0, 4, 2)


def test_the_sums_of_average_pool_count_against_the_memory_limit() -> None:
    with pytest.raises(LimitExceededError):
        ours(
            "QLinearAveragePool",
            *averaged(codes(1, 1, 64, 64)),
            kernel_shape=[2, 2],
            limit_nbytes=5000,
        )


@pytest.mark.parametrize("include_pad", [0, 1])
@pytest.mark.parametrize(("shape", "dilation"), [((1, 2, 0, 3), 1), ((1, 2, 1, 1), 2)])
def test_average_of_padding_alone_is_the_code_of_zero(
    shape: tuple[int, ...], dilation: int, include_pad: int
) -> None:
    y = ours(
        "QLinearAveragePool",
        *averaged(np.full(shape, 9, np.uint8), 7, 5),
        kernel_shape=[2, 2],
        pads=[1, 1, 1, 1],
        dilations=[dilation, dilation],
        count_include_pad=include_pad,
    )
    assert y.size
    assert (y == 5).all()
