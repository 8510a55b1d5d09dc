"""Convolutions as shifted additions of one product agree with unrolled windows."""

from __future__ import annotations

import numpy as np
import pytest

from ortpkg.kernels import shifted_products
from ortpkg.kernels.conv_epilogue import Epilogue
from ortpkg.kernels.convolution import Filter, convolve
from ortpkg.kernels.op_kernel import Tensor
from ortpkg.kernels.sliding_windows import WindowAttributes, Windows
from tests.kernels.node_runner import run_op

RANDOM = np.random.default_rng(11)


def normal(*shape: int) -> Tensor:
    return RANDOM.normal(size=shape).astype(np.float32)


def windows_of(
    spatial: tuple[int, ...],
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    pads: tuple[int, ...],
) -> Windows:
    return WindowAttributes(
        kernel=kernel,
        strides=strides,
        dilations=dilations,
        pads=pads,
        auto_pad="NOTSET",
        ceil_mode=False,
    ).windows(spatial)


#: channels, filters, groups; spatial, kernel, strides, dilations, pads.
CASES = {
    "same padding": ((8, 6, 1), (9, 7), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    "no padding": ((8, 6, 1), (9, 7), (3, 3), (1, 1), (1, 1), (0, 0, 0, 0)),
    "padding wider than the kernel": ((8, 6, 1), (5, 6), (3, 3), (1, 1), (1, 1), (4, 5, 3, 6)),
    "rows of one element": ((8, 6, 1), (9, 1), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    "shifts beyond a row": ((8, 6, 1), (9, 2), (3, 5), (1, 1), (1, 3), (1, 6, 1, 6)),
    "dilations": ((8, 6, 1), (12, 11), (3, 3), (1, 1), (2, 3), (2, 3, 2, 3)),
    "steps along the first axis": ((8, 6, 1), (12, 11), (3, 3), (2, 1), (1, 1), (1, 1, 0, 1)),
    "an even kernel": ((8, 6, 1), (7, 9), (2, 4), (1, 1), (1, 1), (0, 1, 1, 2)),
    "groups": ((12, 6, 3), (9, 7), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    "three axes": ((4, 3, 1), (5, 6, 7), (3, 2, 3), (2, 1, 1), (1, 2, 1), (1, 1, 1, 1, 1, 1)),
    "one row of windows": ((8, 6, 1), (1, 30), (1, 3), (1, 1), (1, 1), (0, 1, 0, 1)),
}


@pytest.mark.parametrize("panel_nbytes", [64, shifted_products.PANEL_NBYTES])
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_agrees_with_unrolled_windows(
    name: str, has_bias: bool, panel_nbytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shifted_products, "PANEL_NBYTES", panel_nbytes)
    (channels, filters, group), spatial, kernel, strides, dilations, pads = CASES[name]
    windows = windows_of(spatial, kernel, strides, dilations, pads)
    x, weight = normal(2, channels, *spatial), normal(filters, channels // group, *kernel)
    residual, bias = normal(2, filters, *windows.output), normal(filters) if has_bias else None

    def relu(x: Tensor, out: Tensor) -> None:
        np.maximum(x, 0, out=out)

    def epilogue(out: Tensor) -> Epilogue:
        return Epilogue(out=out, dtype=x.dtype, bias=bias, residual=residual, activation=relu)

    direct, shifted = np.empty_like(residual), np.full_like(residual, np.nan)
    convolve(x, Filter(weight, group), windows, epilogue(direct))
    convolve(
        x,
        Filter(weight, group, shifted_products.shifted_filter(weight, group)),
        windows,
        epilogue(shifted),
    )
    np.testing.assert_allclose(shifted, direct, rtol=0, atol=1e-4)


def test_zero_point_is_taken_off_what_is_there_and_not_off_the_padding() -> None:
    windows = windows_of((6, 5), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1))
    codes = RANDOM.integers(0, 255, (1, 4, 6, 5)).astype(np.uint8)
    weight = normal(3, 4, 3, 3)
    found, expected = np.empty((1, 3, 6, 5), np.float32), np.empty((1, 3, 6, 5), np.float32)
    filters = Filter(weight, 1, shifted_products.shifted_filter(weight, 1))
    convolve(codes, filters, windows, Epilogue(out=found, dtype=found.dtype), 128)
    convolve(
        codes.astype(np.float32) - 128,
        Filter(weight, 1),
        windows,
        Epilogue(out=expected, dtype=found.dtype),
    )
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-2)


@pytest.mark.parametrize("odd", [np.inf, -np.inf, np.nan, np.float32(1e37)])
def test_one_odd_element_reaches_only_the_windows_that_see_it(odd: float) -> None:
    x, weight = normal(1, 48, 32, 32), np.abs(normal(64, 48, 3, 3)) + np.float32(0.5)
    assert shifted_products.suits(weight.shape, 1, 1)
    x[0, 5, 9, 31] = odd  # the end of a row, whose neighbour in memory is the next row's begin
    out = run_op("Conv", x, weight, constant_slots=[1], pads=[1, 1, 1, 1])
    assert np.isfinite(out[:, :, :8]).all()
    assert np.isfinite(out[:, :, 11:]).all()
    assert np.isfinite(out[:, :, 8:11, :30]).all()
    if not np.isfinite(odd):
        np.testing.assert_array_equal(out[:, :, 8:11, 30:], np.full((1, 64, 3, 2), odd, np.float32))


def test_kernels_that_it_would_not_help_are_left_to_others() -> None:
    assert shifted_products.suits((64, 64, 3, 3), 1, 1)
    assert not shifted_products.suits((64, 64, 3, 3), 2, 1)  # steps along the rows
    assert not shifted_products.suits((64, 3, 3, 3), 1, 1)  # more sums than windows
    assert not shifted_products.suits((64, 64, 3, 1), 1, 1)  # nothing to shift
    assert not shifted_products.suits((64, 64, 3), 1, 1)  # nothing to unroll
