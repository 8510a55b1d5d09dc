"""Convolution and pooling against windows summed one by one, over many shapes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from ortpkg.runtime.kernels import convolution, pooling
from ortpkg.runtime.kernels.op_kernel import Tensor
from tests.kernels.node_runner import run_op
from tests.kernels.onnxruntime_peer import run_on_onnxruntime

RANDOM = np.random.default_rng(5)


def normal(*shape: int) -> Tensor:
    return RANDOM.normal(size=shape).astype(np.float32)


def naive_conv(
    x: Tensor, w: Tensor, group: int, strides: list[int], dilations: list[int], pads: list[int]
) -> Tensor:
    rank = x.ndim - 2
    padded = np.pad(
        x.astype(np.float64), [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)]
    )
    reach = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations, strict=True)]
    output = [(n - r) // s + 1 for n, r, s in zip(padded.shape[2:], reach, strides, strict=True)]
    out = np.zeros((x.shape[0], w.shape[0], *output))
    per_group = w.shape[0] // group
    for m in range(w.shape[0]):
        first = (m // per_group) * w.shape[1]
        for at in itertools.product(*map(range, output)):
            window: list[Any] = [
                slice(a * s, a * s + r, d)
                for a, s, r, d in zip(at, strides, reach, dilations, strict=True)
            ]
            part = padded[(slice(None), slice(first, first + w.shape[1]), *window)]
            place: tuple[Any, ...] = (slice(None), m, *at)
            out[place] = (part * w[m]).reshape(x.shape[0], -1).sum(axis=1)
    return out


CONVOLUTIONS: dict[str, Any] = {
    "plain": ((2, 3, 7, 8), (4, 3, 3, 3), {}),
    "strided, padded": ((1, 3, 9, 8), (5, 3, 3, 2), {"strides": [2, 3], "pads": [1, 0, 2, 1]}),
    "dilated": ((1, 2, 9, 9), (3, 2, 3, 3), {"dilations": [2, 3]}),
    "groups": ((2, 6, 5, 5), (4, 3, 3, 3), {"group": 2, "pads": [1, 1, 1, 1]}),
    "pointwise": ((2, 5, 4, 4), (3, 5, 1, 1), {}),
    "pointwise strided": ((2, 5, 5, 7), (3, 5, 1, 1), {"strides": [2, 3]}),
    "pointwise padded": ((1, 2, 3, 3), (3, 2, 1, 1), {"pads": [1, 1, 0, 2]}),
    "1-D": ((2, 3, 11), (4, 3, 4), {"strides": [2], "pads": [2, 1]}),
    "3-D": ((1, 2, 4, 5, 6), (3, 2, 2, 3, 2), {"strides": [1, 2, 1], "pads": [1, 0, 0, 0, 1, 1]}),
    "depthwise": ((2, 4, 7, 6), (4, 1, 3, 3), {"group": 4, "pads": [1, 1, 1, 1]}),
    "depthwise strided": (
        (1, 3, 9, 8),
        (3, 1, 3, 3),
        {"group": 3, "strides": [2, 2], "pads": [0, 1, 1, 0]},
    ),
    "depthwise dilated": (
        (1, 3, 11, 12),
        (3, 1, 3, 2),
        {"group": 3, "dilations": [2, 3], "strides": [3, 2], "pads": [2, 3, 1, 2]},
    ),
    "depthwise multiplied": ((1, 3, 6, 6), (6, 1, 2, 3), {"group": 3, "pads": [0, 1, 1, 1]}),
    "depthwise 1-D": ((2, 4, 10), (4, 1, 5), {"group": 4, "strides": [2], "pads": [4, 0]}),
    "depthwise 3-D": ((1, 2, 4, 4, 4), (2, 1, 2, 2, 2), {"group": 2}),
    "padding wider than the kernel": ((1, 2, 5, 6), (3, 2, 3, 3), {"pads": [4, 5, 3, 6]}),
    "rows of one element": ((1, 2, 9, 1), (3, 2, 3, 3), {"pads": [1, 1, 1, 1]}),
    "one row of windows": ((1, 2, 1, 30), (3, 2, 1, 3), {"pads": [0, 1, 0, 1]}),
    "stride beyond the kernel": ((1, 2, 9, 9), (2, 1, 2, 2), {"group": 2, "strides": [4, 5]}),
}


@pytest.mark.parametrize("panel_nbytes", [64, convolution.PANEL_NBYTES])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution_sums_its_windows(
    name: str, panel_nbytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(convolution, "PANEL_NBYTES", panel_nbytes)
    x_shape, w_shape, given = CONVOLUTIONS[name]
    attributes: dict[str, Any] = dict(given)
    rank = len(x_shape) - 2
    x, w, bias = normal(*x_shape), normal(*w_shape), normal(w_shape[0])
    expected = naive_conv(
        x,
        w,
        attributes.get("group", 1),
        attributes.get("strides", [1] * rank),
        attributes.get("dilations", [1] * rank),
        attributes.get("pads", [0] * 2 * rank),
    )
    expected += bias.reshape(-1, *(1,) * rank)
    np.testing.assert_allclose(
        run_op("Conv", x, w, bias, **attributes), expected, rtol=1e-4, atol=1e-4
    )


def test_zero_point_is_subtracted_from_the_input_and_not_from_the_padding() -> None:
    codes = RANDOM.integers(0, 255, (1, 4, 6, 5)).astype(np.uint8)
    weight = RANDOM.integers(-9, 9, (3, 4, 3, 3)).astype(np.int8)
    result = run_op("ConvInteger", codes, weight, np.array(128, np.uint8), pads=[1, 1, 1, 1])
    expected = naive_conv(codes.astype(np.float64) - 128, weight, 1, [1, 1], [1, 1], [1, 1, 1, 1])
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("odd", [np.inf, -np.inf, np.nan])
def test_one_odd_element_reaches_only_the_windows_that_see_it(odd: float) -> None:
    x, weight = normal(1, 8, 32, 32), np.abs(normal(5, 8, 3, 3)) + np.float32(0.5)
    x[0, 5, 9, 31] = odd  # the end of a row, whose neighbour in memory is the next row's begin
    out = run_op("Conv", x, weight, constant_slots=[1], pads=[1, 1, 1, 1])
    sees = np.zeros((32, 32), np.bool_)
    sees[8:11, 30:] = True
    assert np.isfinite(out[..., ~sees]).all()
    np.testing.assert_array_equal(out[..., sees], np.full((1, 5, 6), odd, np.float32))


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
def test_same_padding_keeps_the_size_per_stride(auto_pad: str) -> None:
    result = run_op(
        "Conv", normal(1, 1, 5, 6), normal(1, 1, 2, 3), auto_pad=auto_pad, strides=[2, 1]
    )
    assert result.shape == (1, 1, 3, 6)


def test_same_padding_of_a_transposed_convolution_takes_no_more_than_there_is() -> None:
    x, w = np.ones((1, 1, 2), np.float32), np.ones((1, 1, 2), np.float32)
    result = run_op("ConvTranspose", x, w, auto_pad="SAME_UPPER", strides=[3])
    assert result.tolist() == [[[1, 1, 0, 1, 1]]]  # as in onnxruntime


def test_float16_convolution_rounds_once() -> None:
    x, w = normal(1, 8, 5, 5).astype(np.float16), normal(4, 8, 3, 3).astype(np.float16)
    expected = naive_conv(x, w, 1, [1, 1], [1, 1], [0] * 4).astype(np.float16)
    for constant_slots in ((), (1,)):
        result = run_op("Conv", x, w, constant_slots=constant_slots)
        assert result.dtype == np.float16
        np.testing.assert_allclose(result, expected, rtol=2e-3, atol=2e-3)


def test_fused_convolution_adds_the_residual_before_the_activation() -> None:
    x, w, bias, residual = normal(2, 3, 5, 5), normal(4, 3, 3, 3), normal(4), normal(2, 4, 3, 3)
    plain = naive_conv(x, w, 1, [1, 1], [1, 1], [0] * 4) + bias.reshape(-1, 1, 1) + residual
    result = run_op("FusedConv", x, w, bias, residual, domain="com.microsoft", activation="Relu")
    np.testing.assert_allclose(result, np.maximum(plain, 0), rtol=1e-4, atol=1e-5)


def test_no_channels_give_the_bias() -> None:
    bias = normal(4)
    out = run_op("Conv", normal(1, 0, 5, 5), normal(4, 0, 3, 3), bias)
    np.testing.assert_array_equal(out, np.broadcast_to(bias[:, None, None], (1, 4, 3, 3)))


def test_empty_batch_gives_an_empty_output() -> None:
    assert run_op("Conv", normal(0, 3, 5, 5), normal(4, 3, 3, 3)).shape == (0, 4, 3, 3)


@pytest.mark.parametrize(
    ("x", "w", "attributes", "message"),
    [
        (
            (1, 3, 5, 5),
            (4, 2, 3, 3),
            {},
            r"an input of 3 channels does not fit a weight of shape \(4, 2, 3, 3\)",
        ),
        (
            (1, 3, 2, 2),
            (4, 3, 4, 4),
            {},
            "a window reaching over 4 elements does not fit an axis of 2 elements",
        ),
        (
            (1, 3, 5, 5),
            (4, 3, 3, 3),
            {"strides": [1]},
            r"strides \(1,\) does not fit 2 spatial axes",
        ),
        ((1, 3, 5, 5), (4, 3, 3, 3), {"strides": [0, 1]}, r"strides \(0, 1\) does not fit"),
        ((1, 3, 5, 5), (4, 3, 3, 3), {"pads": [1]}, r"pads \(1,\) do not fit 2 spatial axes"),
        (
            (1, 3, 5, 5),
            (4, 3, 3, 3),
            {"kernel_shape": [2, 2]},
            r"kernel_shape \(2, 2\) is not that of the weight",
        ),
        ((3, 5), (4, 3), {}, r"are not \(N, C, D1, ...\)"),
    ],
)
def test_convolution_says_what_does_not_fit(x: Any, w: Any, attributes: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run_op("Conv", normal(*x), normal(*w), **attributes)


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize(
    "attributes", [{}, {"strides": [2, 3], "pads": [1, 0, 0, 2], "output_padding": [1, 0]}]
)
def test_transposed_convolution_is_the_gradient_of_convolution(
    group: int, attributes: dict[str, Any]
) -> None:
    """<conv(x), y> = <x, conv_transpose(y)> for any x and y of fitting shapes."""
    y, w = normal(2, 4, 3, 4), normal(4, 6 // group, 3, 2)
    transposed = run_op("ConvTranspose", y, w, group=group, **attributes)
    x = normal(*transposed.shape)
    strides, pads = attributes.get("strides", [1, 1]), attributes.get("pads", [0] * 4)
    forward = naive_conv(x, w, group, strides, [1, 1], pads)[:, :, :3, :4]
    np.testing.assert_allclose((forward * y).sum(), (x * transposed).sum(), rtol=1e-3)


def test_transposed_convolution_takes_the_asked_for_shape() -> None:
    result = run_op(
        "ConvTranspose",
        normal(1, 1, 3, 3),
        normal(1, 2, 3, 3),
        strides=[3, 2],
        output_shape=[10, 8],
    )
    assert result.shape == (1, 2, 10, 8)


POOLS: list[dict[str, Any]] = [
    {"kernel_shape": [2, 3]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [0, 1, 1, 0], "ceil_mode": 1},
    {"kernel_shape": [2, 2], "dilations": [2, 3], "strides": [1, 2]},
    {"kernel_shape": [3, 3], "auto_pad": "SAME_LOWER", "strides": [2, 2]},
]


@pytest.mark.parametrize("attributes", POOLS)
def test_max_pool_indices_point_at_its_values(attributes: dict[str, Any]) -> None:
    x = normal(2, 3, 7, 8)
    values, indices = run_op("MaxPool", x, outputs=2, **attributes)
    np.testing.assert_array_equal(x.ravel()[indices], values)
    np.testing.assert_array_equal(run_op("MaxPool", x, **attributes), values)


def test_average_leaves_padding_out_unless_told_to_count_it() -> None:
    x = np.ones((1, 1, 4), np.float32)
    attributes: dict[str, Any] = {
        "kernel_shape": [3],
        "strides": [2],
        "pads": [1, 1],
        "ceil_mode": 1,
    }
    assert run_op("AveragePool", x, **attributes).ravel().tolist() == [1, 1, 1]
    counted = run_op("AveragePool", x, count_include_pad=1, **attributes).ravel()
    np.testing.assert_allclose(counted, [2 / 3, 1, 1 / 2])


def test_int8_pooling_starts_below_every_value() -> None:
    x = np.full((1, 1, 2), -128, np.int8)
    assert run_op("MaxPool", x, kernel_shape=[2], pads=[1, 1]).ravel().tolist() == [-128] * 3


def test_pooling_passes_nan_on() -> None:
    x = np.array([[[1, np.nan, 0, 2]]], np.float32)
    assert np.isnan(run_op("MaxPool", x, kernel_shape=[2], strides=[2])).ravel().tolist() == [
        True,
        False,
    ]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_pooling_with_indices_passes_the_first_nan_on(dtype: Any) -> None:
    x = np.array([[[1, np.nan, 2, 0, np.nan, np.nan, 5, 3, 7]]], dtype)
    values, indices = run_op("MaxPool", x, outputs=2, kernel_shape=[3])
    np.testing.assert_array_equal(values, run_op("MaxPool", x, kernel_shape=[3]))
    assert values.ravel().tolist()[-1:] == [7]
    assert indices.ravel().tolist() == [1, 1, 4, 4, 4, 5, 8]


@pytest.mark.parametrize(("group", "tile"), [(1, (2, 2)), (2, (3, 2)), (4, (2, 4))])
def test_transposed_convolution_of_windows_side_by_side_is_a_sum_per_output(
    group: int, tile: tuple[int, int]
) -> None:
    x, w, bias = normal(2, 8, 20, 9), normal(8, 3, *tile), normal(3 * group)
    expected = np.zeros((2, 3 * group, 20 * tile[0], 9 * tile[1]))
    for g, m in itertools.product(range(group), range(3)):
        own = slice(g * 8 // group, (g + 1) * 8 // group)
        sums = np.einsum("nchw,cij->nhiwj", x[:, own].astype(np.float64), w[own, m])
        expected[:, g * 3 + m] = sums.reshape(2, *expected.shape[2:]) + bias[g * 3 + m]
    out = run_op("ConvTranspose", x, w, bias, strides=list(tile), group=group)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("extra", [{"output_padding": [1, 0]}, {"output_shape": [7, 9]}])
def test_transposed_convolution_behind_the_last_window_is_its_bias(
    with_bias: bool, extra: dict[str, Any]
) -> None:
    x, w, bias = normal(1, 2, 3, 4), normal(2, 3, 2, 2), normal(3)
    inputs = (x, w, bias) if with_bias else (x, w)
    out = run_op("ConvTranspose", *inputs, strides=[2, 2], **extra)
    expected = run_on_onnxruntime("ConvTranspose", *inputs, domain="", strides=[2, 2], **extra)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("op_type", "number"), [("MaxPool", -np.inf), ("AveragePool", 0), ("LpPool", 0)]
)
@pytest.mark.parametrize("shape", [(1, 2, 0), (1, 2, 0, 3), (2, 1, 3, 0), (0, 2, 0)])
def test_pool_of_an_empty_axis_sees_padding_alone(
    op_type: str, number: float, shape: tuple[int, ...]
) -> None:
    rank = len(shape) - 2
    y = run_op(op_type, np.zeros(shape, np.float32), kernel_shape=[2] * rank, pads=[1] * 2 * rank)
    assert y.shape == (*shape[:2], *(size + 1 for size in shape[2:]))
    assert (y == number).all()


@pytest.mark.parametrize("stride", [1, 2, 3, 7])
def test_transposed_convolution_of_an_empty_axis_is_its_bias(stride: int) -> None:
    x, w, bias = np.zeros((2, 3, 0), np.float32), normal(3, 2, 2), normal(2)
    y = run_op("ConvTranspose", x, w, bias, strides=[stride], output_shape=[4])
    np.testing.assert_array_equal(y, np.broadcast_to(bias[:, None], (2, 2, 4)))


def test_global_average_of_no_elements_is_no_number() -> None:
    with np.errstate(invalid="ignore"):
        assert np.isnan(run_op("GlobalAveragePool", np.zeros((1, 2, 0, 3), np.float32))).all()


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool", "LpPool", "Conv"])
def test_window_that_exceeds_the_axis_gives_no_outputs(op_type: str) -> None:
    x = normal(1, 1, 2, 3)
    inputs = (x, normal(1, 1, 3, 1)) if op_type == "Conv" else (x,)
    assert run_op(op_type, *inputs, kernel_shape=[3, 1]).shape == (1, 1, 0, 3)
    with pytest.raises(ValueError, match="over 4 elements does not fit an axis of 2 elements"):
        run_op(op_type, *(x, normal(1, 1, 4, 1))[: len(inputs)], kernel_shape=[4, 1])


def test_average_of_padding_alone_is_zero() -> None:
    x = np.ones((1, 1, 1), np.float32)
    window: dict[str, Any] = {"kernel_shape": [2], "dilations": [2], "pads": [1, 1]}
    assert run_op("AveragePool", x, **window).tolist() == [[[0]]]
    assert run_on_onnxruntime("AveragePool", x, domain="", **window).tolist() == [[[0]]]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
@pytest.mark.parametrize("block", [8, 1 << 16])
def test_maxima_are_the_same_whatever_the_block(
    dtype: Any, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pooling, "_BLOCK", block)
    x = (normal(2, 5, 11, 9) * 20).astype(dtype)
    least = np.iinfo(dtype).min if dtype is np.int8 else -np.inf
    padded = np.full((2, 5, 14, 12), least, dtype)
    padded[:, :, 2:13, 1:10] = x
    windows = np.lib.stride_tricks.sliding_window_view(padded, (4, 3), axis=(2, 3))[:, :, ::2, ::3]
    out = run_op("MaxPool", x, kernel_shape=[4, 3], strides=[2, 3], pads=[2, 1, 1, 2])
    np.testing.assert_array_equal(out, windows.max(axis=(4, 5)))


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("shape", [(2, 3, 5), (2, 3, 4, 5), (1, 2, 2, 3, 2)])
def test_global_lp_pool_is_the_norm_of_each_channel(shape: tuple[int, ...], p: int) -> None:
    x = normal(*shape)
    found = run_op("GlobalLpPool", x, p=p)
    onnxruntime = run_on_onnxruntime("GlobalLpPool", x, domain="", p=p)
    np.testing.assert_allclose(found, onnxruntime, rtol=1e-5)
