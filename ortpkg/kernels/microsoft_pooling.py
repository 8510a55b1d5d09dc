"""com.microsoft: NhwcMaxPool and QLinearAveragePool, pooling of 8-bit codes.

Source: ONNX Runtime, docs/ContribOperators.md. Codes are folded as they are, one spatial axis after
the other: maxima in their own type, sums as 32-bit integers, which are exact; a mean is rounded
once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ortpkg.kernels.kernel_registry import kernel
from ortpkg.kernels.linear_quantization import round_into
from ortpkg.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor
from ortpkg.kernels.quantization import BYTES
from ortpkg.kernels.scratch import Slot, take_scratch
from ortpkg.kernels.sliding_windows import WindowAttributes, Windows
from ortpkg.kernels.ufunc_buffers import small_ufunc_buffers

_DOMAIN = "com.microsoft"
_INT32, _FLOAT32 = np.dtype(np.int32), np.dtype(np.float32)
#: Elements that are folded at a time where one plane is small: what stays in cache.
_BLOCK = 1 << 16


def _check_codes(x: Tensor) -> None:
    if x.ndim < 3:
        raise ValueError(
            f"pooling needs spatial dimensions, which a tensor of shape {x.shape} has not"
        )
    if x.dtype not in (np.uint8, np.int8):
        raise ValueError(f"pooling of codes takes uint8 or int8, not {x.dtype}")


def _folded(
    ufunc: np.ufunc, neutral: int, x: Tensor, windows: Windows, buffers: list[Tensor]
) -> Tensor:
    """Folds ``ufunc`` over the windows of ``x`` (planes, *spatial, inner); the last buffer has it.

    There is a buffer for each spatial axis.
    """
    for axis, out in enumerate(buffers):
        before = (slice(None),) * (axis + 1)
        out.fill(neutral)
        for outputs, inputs in windows.taps(axis, x.shape[axis + 1]):
            part = out[(*before, outputs)]
            ufunc(part, x[(*before, inputs)], out=part)
        x = out
    return x


def _fold_shapes(spatial: tuple[int, ...], inner: int, windows: Windows) -> list[tuple[int, ...]]:
    """The shape of one plane after each spatial axis is folded."""
    return [
        (*windows.output[: axis + 1], *spatial[axis + 1 :], inner) for axis in range(len(spatial))
    ]


@kernel("NhwcMaxPool", since=(1,), domain=_DOMAIN, types={"T": BYTES})
def nhwc_max_pool(info: OpKernelInfo) -> Compute:
    attributes = WindowAttributes.of(info)

    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        _check_codes(x)
        spatial = x.shape[1:-1]
        windows = attributes.windows(spatial)
        out = context.output(0, (x.shape[0], *windows.output, x.shape[-1]), x.dtype)
        shapes = _fold_shapes(spatial, x.shape[-1], windows)
        context.check_allocation(sum(map(math.prod, shapes)))
        lowest = int(np.iinfo(x.dtype).min)

        for image in range(x.shape[0] if out.size else 0):
            context.check_cancelled()
            kept = take_scratch(Slot.TASK, *(((1, *shape), x.dtype) for shape in shapes[:-1]))
            _folded(
                np.maximum, lowest, x[image : image + 1], windows, [*kept, out[image : image + 1]]
            )
        return out

    return compute


def _counts(windows: Windows, spatial: tuple[int, ...]) -> Tensor:
    """How many elements of the input each window averages, (*output)."""
    total = np.ones((), _FLOAT32)
    for axis, size in enumerate(spatial):
        counts = np.zeros(windows.output[axis], _FLOAT32)
        for outputs, _ in windows.taps(axis, size):
            counts[outputs] += 1
        total = total[..., None] * counts
    return total


def _code(parameter: Tensor | None, like: np.dtype[Any]) -> int:
    """A zero point as an integer; ValueError where it is not one code of type ``like``."""
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


def _sums(block: Tensor, windows: Windows, shapes: list[tuple[int, ...]]) -> Tensor:
    """The sum of each window's codes, in scratch memory of type float32."""
    *buffers, sums = take_scratch(
        Slot.TASK,
        *(((len(block), *shape), _INT32) for shape in shapes),
        ((len(block), *shapes[-1]), _FLOAT32),
    )
    np.copyto(sums, _folded(np.add, 0, block, windows, buffers))
    return sums


@kernel("QLinearAveragePool", since=(1,), domain=_DOMAIN, types={"T": BYTES})
def qlinear_average_pool(info: OpKernelInfo) -> Compute:
    """With ``count_include_pad``, divides by windows' whole sizes, as onnxruntime in ceil mode."""
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
            codes, target, inner = x, out, x.shape[-1]
        else:
            out = context.output(0, (*x.shape[:2], *windows.output), x.dtype)
            codes, target, inner = (
                x.reshape(-1, *spatial, 1),
                out.reshape(-1, *windows.output, 1),
                1,
            )
        if not out.size:
            return out
        counts = _counts(windows, spatial)
        divisors = np.full_like(counts, math.prod(windows.kernel)) if include_pad else counts
        # Zero points leave the sums here, once per window, and the mean comes in the same step as
        # the new scale.
        factors, shifts = (factor / divisors)[..., None], (counts * np.float32(-point))[..., None]
        shapes = _fold_shapes(spatial, inner, windows)
        largest = max(math.prod(shape) for shape in shapes)
        step = max(_BLOCK // largest, 1)
        context.check_allocation((len(shapes) + 1) * largest * step * _INT32.itemsize)
        with small_ufunc_buffers(out.size):
            for start in range(0, len(codes), step):
                context.check_cancelled()
                place = slice(start, start + step)
                means = _sums(codes[place], windows, shapes)
                means += shifts
                means *= factors
                round_into(target[place], means, new_point)
        return out

    return compute
