"""com.microsoft: NhwcMaxPool and QLinearAveragePool, pooling of 8-bit codes.

Source: ONNX Runtime, docs/ContribOperators.md. Codes are folded as they are, one spatial axis after
the other: maxima in their own type, sums as 32-bit integers, which are exact; a mean is rounded
once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.linear_quantization import round_into
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor
from ortpkg.runtime.kernels.pooling import fold_windows, planes_at_once
from ortpkg.runtime.kernels.quantization import BYTES
from ortpkg.runtime.kernels.sliding_windows import SlidingWindows, WindowAttributes

_DOMAIN = "com.microsoft"
_INT32, _FLOAT32 = np.dtype(np.int32), np.dtype(np.float32)


def _check_codes(x: Tensor) -> None:
    if x.ndim < 3:
        raise ValueError(
            f"pooling needs spatial dimensions, which a tensor of shape {x.shape} has not"
        )
    if x.dtype not in (np.uint8, np.int8):
        raise ValueError(f"pooling of codes takes uint8 or int8, not {x.dtype}")


@kernel("NhwcMaxPool", since=(1,), domain=_DOMAIN, types={"T": BYTES})
def nhwc_max_pool(info: OpKernelInfo) -> Compute:
    attributes = WindowAttributes.of(info)

    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        _check_codes(x)
        spatial = x.shape[1:-1]
        windows = attributes.windows(spatial)
        out = context.output(0, (x.shape[0], *windows.output, x.shape[-1]), x.dtype)
        _, plane_elements = planes_at_once(x.shape[1:], windows)
        context.check_allocation(plane_elements)
        lowest = int(np.iinfo(x.dtype).min)
        for image in range(x.shape[0] if out.size else 0):
            context.check_cancelled()
            images = slice(image, image + 1)
            out[images] = fold_windows(np.maximum, lowest, x.dtype, x[images], windows)
        return out

    return compute


def _counts(windows: SlidingWindows, spatial: tuple[int, ...]) -> Tensor:
    """Return the number of input elements that each window averages, (*output)."""
    total = np.ones((), _FLOAT32)
    for axis, size in enumerate(spatial):
        counts = np.zeros(windows.output[axis], _FLOAT32)
        for outputs, _ in windows.taps(axis, size):
            counts[outputs] += 1
        total = total[..., None] * counts
    return total


def _code(parameter: Tensor | None, like: np.dtype[Any]) -> int:
    """Return a zero point as an integer. Raises ValueError if it is not one code of ``like``."""
    if parameter is None:
        return 0
    if parameter.size != 1 or parameter.dtype != like:
        raise ValueError(
            f"a zero point of shape {parameter.shape} and type {parameter.dtype} is not one {like}"
        )
    return int(parameter.reshape(()))


def _factor(scale: Tensor) -> np.float32:
    if scale.size != 1:
        raise ValueError(
            f"a tensor quantized as a whole has one scale, not scales of shape {scale.shape}"
        )
    return np.float32(scale.reshape(()))


@kernel("QLinearAveragePool", since=(1,), domain=_DOMAIN, types={"T": BYTES})
def qlinear_average_pool(info: OpKernelInfo) -> Compute:
    """Means of windows; with ``count_include_pad`` their whole sizes divide, also in ceil mode.

    onnxruntime does so, too.
    """
    attributes = WindowAttributes.of(info)
    include_pad = bool(info.attribute("count_include_pad", 0))
    channels_last = bool(info.attribute("channels_last", 0))

    def compute(
        context: OpKernelContext,
        x: Tensor,
        x_scale: Tensor,
        x_zero: Tensor | None,
        y_scale: Tensor,
        y_zero: Tensor | None = None,
    ) -> Tensor:
        _check_codes(x)
        spatial = x.shape[1:-1] if channels_last else x.shape[2:]
        windows = attributes.windows(spatial)
        point, factor = _code(x_zero, x.dtype), _factor(x_scale) / _factor(y_scale)
        new_point = np.asarray(_code(y_zero, x.dtype), x.dtype)
        if channels_last:
            out = context.output(0, (x.shape[0], *windows.output, x.shape[-1]), x.dtype)
            codes, target = x, out
        else:
            out = context.output(0, (*x.shape[:2], *windows.output), x.dtype)
            planes = x.shape[0] * x.shape[1]
            codes = x.reshape(planes, *spatial, 1)
            target = out.reshape(planes, *windows.output, 1)
        if not out.size:
            return out
        counts = _counts(windows, spatial)
        # The mean of padding alone is 0, as in AveragePool.
        divisors = (
            np.full_like(counts, math.prod(windows.kernel))
            if include_pad
            else np.maximum(counts, 1)
        )
        # Zero points leave the sums here, once per window, and the mean comes in the same step as
        # the new scale.
        factors, shifts = (factor / divisors)[..., None], (counts * np.float32(-point))[..., None]
        step, plane_elements = planes_at_once(codes.shape[1:], windows)
        context.check_allocation((plane_elements + codes[0].size) * step * _INT32.itemsize)
        for start in range(0, len(codes), step):
            context.check_cancelled()
            block = slice(start, start + step)
            means = fold_windows(np.add, 0, _INT32, codes[block], windows).astype(_FLOAT32)
            means += shifts
            means *= factors
            round_into(target[block], means, new_point)
        return out

    return compute
