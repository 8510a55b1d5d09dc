"""3 x 3 convolutions by minimal filtering agree with sums over windows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ortpkg.kernels import winograd
from ortpkg.kernels.blas_threads import blas_threads
from ortpkg.kernels.conv_epilogue import Epilogue
from ortpkg.kernels.convolution import Filter, convolve
from ortpkg.kernels.op_kernel import Tensor
from ortpkg.kernels.windows import Windows
from tests.kernels.node_runner import run_op

RANDOM = np.random.default_rng(11)
#: Channels, filters, height, width, pads (top, left, bottom, right).
SHAPES = {
    "whole tiles": (64, 64, 32, 32, (1, 1, 1, 1)),
    "cut tiles, no padding": (64, 40, 31, 42, (0, 0, 0, 0)),
    "wide padding": (48, 64, 30, 27, (3, 5, 4, 6)),
    "several panels": (64, 48, 90, 70, (1, 0, 0, 1)),
}


def normal(*shape: int) -> Tensor:
    return RANDOM.normal(size=shape).astype(np.float32)


def windows_of(height: int, width: int, pads: tuple[int, ...]) -> Windows:
    return Windows(
        kernel=(3, 3),
        strides=(1, 1),
        dilations=(1, 1),
        before=pads[:2],
        after=pads[2:],
        output=(height + pads[0] + pads[2] - 2, width + pads[1] + pads[3] - 2),
    )


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("name", SHAPES)
def test_agrees_with_unrolled_windows(name: str, threads: int) -> None:
    channels, filters, height, width, pads = SHAPES[name]
    x, weight, bias = normal(2, channels, height, width), normal(filters, channels, 3, 3), normal(filters)
    windows = windows_of(height, width, pads)
    assert winograd.suits(windows, weight.shape)
    residual = normal(2, filters, *windows.output)

    def relu(x: Tensor, out: Tensor) -> None:
        np.maximum(x, 0, out=out)

    def epilogue(out: Tensor) -> Epilogue:
        return Epilogue(out=out, dtype=x.dtype, bias=bias, residual=residual, activation=relu)

    direct, fast = np.empty_like(residual), np.empty_like(residual)
    with blas_threads(threads):
        convolve(x, Filter(weight, 1), windows, epilogue(direct))
        convolve(x, Filter(weight, 1, winograd.transformed_filter(weight)), windows, epilogue(fast))
    np.testing.assert_allclose(fast, direct, rtol=0, atol=3e-5 * float(np.abs(direct).max()))


@pytest.mark.parametrize("odd", [np.inf, -np.inf, np.nan, np.float32(1e37)])
def test_one_odd_element_reaches_only_the_windows_that_see_it(odd: float) -> None:
    x, weight = normal(1, 48, 32, 32), np.abs(normal(64, 48, 3, 3)) + np.float32(0.5)
    x[0, 5, 9, 9] = odd
    constants: dict[str, Any] = {"pads": [1, 1, 1, 1]}
    out = run_op("Conv", x, weight, constant_slots=[1], **constants)
    assert np.isfinite(out[:, :, :8]).all()
    assert np.isfinite(out[:, :, 11:]).all()
    assert np.isfinite(out[:, :, 8:11]).all() == np.isfinite(odd)
    if np.isnan(odd):
        assert np.isnan(out[:, :, 8:11, 8:11]).all()
    elif np.isinf(odd):
        assert (out[:, :, 8:11, 8:11] == odd).all()


def test_few_channels_or_few_tiles_are_left_to_other_ways() -> None:
    assert not winograd.suits(windows_of(64, 64, (1, 1, 1, 1)), (64, 3, 3, 3))
    assert not winograd.suits(windows_of(8, 8, (1, 1, 1, 1)), (64, 64, 3, 3))
    assert not winograd.suits(windows_of(64, 64, (1, 1, 1, 1)), (64, 64, 5, 5))


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_only_finite_images_are_tame(dtype: Any) -> None:
    x = normal(3, 5, 7).astype(dtype)
    x[0, 0, :2] = [np.finfo(dtype).max / 2, -np.finfo(dtype).max / 2] if dtype is np.float16 else [1e14, -1e14]
    assert winograd.is_tame(x)
    for odd in (np.inf, -np.inf, np.nan, -np.nan):
        x[2, 4, 6] = odd
        assert not winograd.is_tame(x)
