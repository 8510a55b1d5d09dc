"""Conv and FusedConv on numpy's BLAS, whose threads share the products.

Four ways, chosen by shape: pointwise convolutions are one product on the input as it lies;
depthwise ones go to ``depthwise_convolution``; ones with steps of 1 along rows to
``shifted_products`` where that moves less memory; the rest unrolls panels of windows (im2col) and
multiplies them into their place in the output. Bias, residual and activation follow each product.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ortpkg.kernels import shifted_products
from ortpkg.kernels.activation_table import fused_activation
from ortpkg.kernels.axes import element_count
from ortpkg.kernels.blas_threads import matmul
from ortpkg.kernels.conv_epilogue import Epilogue
from ortpkg.kernels.depthwise_convolution import convolve_depthwise
from ortpkg.kernels.element_types import FLOATS, compute_dtype, widened
from ortpkg.kernels.im2col import padded_image, unroll
from ortpkg.kernels.kernel_registry import kernel
from ortpkg.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor
from ortpkg.kernels.polling import poll_run
from ortpkg.kernels.scratch import Slot, take_scratch
from ortpkg.kernels.sliding_windows import WindowAttributes, Windows
from ortpkg.kernels.ufunc_buffers import small_ufunc_buffers

MS = "com.microsoft"
#: Bytes of unrolled windows at a time: products of many columns are worth more than panels that
#: stay in cache.
PANEL_NBYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Filter:
    """Weights as the product takes them.

    Attributes:
        values: (M, C / group, *kernel).
        group: number of groups.
        shifted: the same for :mod:`.shifted_products`; None where that way is not to be taken.
    """

    values: Tensor
    group: int
    shifted: Tensor | None = None


def check_conv_shapes(
    x: tuple[int, ...], w: tuple[int, ...], group: int, bias: Tensor | None
) -> None:
    """ValueError where input, weight, groups and bias of a convolution do not fit each other."""
    if len(x) < 3 or len(w) != len(x):
        raise ValueError(
            f"an input of shape {x} and a weight of shape {w} are not (N, C, D1, ...) and (M,"
            " C/group, k1, ...)"
        )
    if group < 1 or x[1] != w[1] * group or w[0] % group:
        raise ValueError(
            f"an input of {x[1]} channels does not fit a weight of shape {w} in {group} groups"
        )
    if bias is not None and bias.shape != (w[0],):
        raise ValueError(f"a bias of shape {bias.shape} does not fit {w[0]} output channels")


def convolve(
    x: Tensor, weights: Filter, windows: Windows, epilogue: Epilogue, zero_point: float = 0
) -> None:
    """``epilogue(conv(x - zero_point, weights))``, computed in the weights' float type.

    Padding stands for 0.
    """
    if epilogue.out.size == 0:
        return
    with small_ufunc_buffers(epilogue.out.size):
        if weights.values.shape[1] == 1 and weights.group > 1 and len(windows.kernel) <= 2:
            convolve_depthwise(x, weights.values, windows, epilogue, zero_point)
            return
        if windows.is_pointwise:
            _pointwise(x, weights, windows, epilogue, zero_point)
            return
        if (
            len(windows.kernel) == 1
        ):  # panels are cut along the first axis, so the one of size 1 goes behind it
            x, windows = x[..., None], windows.with_axis(1)
        channels = weights.values.shape[1]
        for image in range(x.shape[0]):
            for group in range(weights.group):
                own = x[image, group * channels : (group + 1) * channels]
                if weights.shifted is not None:
                    shifted = weights.shifted[group]
                    shifted_products.convolve(
                        own, shifted, windows, epilogue, (image, group), zero_point
                    )
                else:
                    _by_panels(own, weights, windows, epilogue, (image, group), zero_point)


def _dense(x: Tensor, windows: Windows, dtype: np.dtype[Any], zero_point: float) -> Tensor:
    """The elements of ``x`` at the strides, in ``dtype``, as (N, C, positions)."""
    every: list[Any] = [slice(None, None, stride) for stride in windows.strides]
    x = x[(..., *every)]
    (dense,) = take_scratch(Slot.SHARED, (x.shape, dtype))
    np.copyto(dense, x, casting="unsafe")
    if zero_point:
        np.subtract(dense, dtype.type(zero_point), out=dense)
    return dense.reshape(*x.shape[:2], -1)


def _pointwise(
    x: Tensor, weights: Filter, windows: Windows, epilogue: Epilogue, zero_point: float
) -> None:
    """Windows of one element: products of the (strided) images themselves."""
    count, (filters, channels) = element_count(windows.output), weights.values.shape[:2]
    matrix, per_group = weights.values.reshape(filters, channels), filters // weights.group
    if any(stride != 1 for stride in windows.strides) or x.dtype != matrix.dtype or zero_point:
        columns = _dense(x, windows, matrix.dtype, zero_point)
    else:
        columns = x.reshape(*x.shape[:2], count)
    positions = slice(0, count)
    for image in range(x.shape[0]):
        for group in range(weights.group):
            own = slice(group * per_group, (group + 1) * per_group)
            poll_run()
            target = epilogue.part(image, own, positions)
            matmul(
                matrix[own], columns[image, group * channels : (group + 1) * channels], out=target
            )
            epilogue.finish(target, image, own, positions)


def _by_panels(
    x: Tensor,
    weights: Filter,
    windows: Windows,
    epilogue: Epilogue,
    where: tuple[int, int],
    zero_point: float,
) -> None:
    """One image and group: unrolls as many windows' rows as fit a panel, multiplies, finishes."""
    image, group = where
    (filters, channels), dtype = weights.values.shape[:2], weights.values.dtype
    per_group = filters // weights.group
    own = slice(group * per_group, (group + 1) * per_group)
    matrix = weights.values.reshape(filters, -1)[own]
    per_row, count = element_count(windows.output[1:]), windows.output[0]
    step = max(PANEL_NBYTES // max(matrix.shape[1] * per_row * dtype.itemsize, 1), 1)
    padded = padded_image(x, windows, dtype, zero_point)
    for start in range(0, count, step):
        poll_run()
        stop = min(start + step, count)
        (columns,) = take_scratch(
            Slot.PANEL, ((channels, *windows.kernel, stop - start, *windows.output[1:]), dtype)
        )
        unroll(padded, windows, start, columns)
        positions = slice(start * per_row, stop * per_row)
        target = epilogue.part(image, own, positions)
        matmul(matrix, columns.reshape(matrix.shape[1], -1), out=target)
        epilogue.finish(target, image, own, positions)


@lru_cache(maxsize=1024)
def scratch_nbytes(x: tuple[int, ...], w: tuple[int, ...], windows: Windows, itemsize: int) -> int:
    """The most that a run takes besides the output: a padded image, a panel of windows."""
    if windows.is_pointwise:
        return itemsize * element_count(x)
    spatial = (
        b + size + a for b, size, a in zip(windows.before, x[2:], windows.after, strict=True)
    )
    row = element_count(w[1:]) * element_count(windows.output[1:]) * itemsize
    shifted = shifted_products.row_nbytes(w, x, windows, itemsize)
    return itemsize * x[1] * element_count(tuple(spatial)) + max(row, shifted, PANEL_NBYTES)


def _conv(info: OpKernelInfo) -> Compute:
    attributes, group = WindowAttributes.of(info), info.attribute("group", 1)
    activation = fused_activation(info)
    constant = info.constant_input(1)
    # A float32 constant is used where it lies; only narrow floats need another copy.
    prepared = None
    if constant is not None and widened(constant) is not constant:
        prepared = info.prepacked("weight", lambda: widened(constant))
    shifted = constant_shifted_filter(
        info, attributes, constant if prepared is None else prepared, group
    )

    def compute(
        context: OpKernelContext,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        residual: Tensor | None = None,
    ) -> Tensor:
        check_conv_shapes(x.shape, weight.shape, group, bias)
        windows = attributes.windows(x.shape[2:], weight.shape[2:])
        if windows.kernel != weight.shape[2:]:
            raise ValueError(
                f"kernel_shape {windows.kernel} is not that of the weight, {weight.shape}"
            )
        out = context.output(0, (x.shape[0], weight.shape[0], *windows.output), x.dtype)
        dtype = compute_dtype(x.dtype)
        context.check_allocation(scratch_nbytes(x.shape, weight.shape, windows, dtype.itemsize))
        if residual is not None and residual.shape != out.shape:
            raise ValueError(
                f"a residual of shape {residual.shape} does not fit the output's shape {out.shape}"
            )
        weights = Filter(widened(weight) if prepared is None else prepared, group, shifted)
        epilogue = Epilogue(
            out=out,
            dtype=dtype,
            bias=None if bias is None else widened(bias),
            residual=residual,
            activation=activation,
        )
        convolve(x, weights, windows, epilogue)
        return out

    return compute


def constant_shifted_filter(
    info: OpKernelInfo, attributes: WindowAttributes, weight: Tensor | None, group: int
) -> Tensor | None:
    """A constant filter as :mod:`.shifted_products` takes it, where that way is to be taken."""
    if weight is None or weight.ndim < 4 or group < 1 or weight.shape[0] % group:
        return None
    if weight.shape[1] == 1 and group > 1 and weight.ndim == 4:
        return None
    _, strides, _ = attributes.lists(weight.ndim - 2, weight.shape[2:])
    if not shifted_products.suits(weight.shape, strides[-1], group):
        return None
    return info.prepacked("shifted filter", lambda: shifted_products.shifted_filter(weight, group))


@kernel("Conv", since=(1, 11, 22), types={"T": FLOATS})
def conv(info: OpKernelInfo) -> Compute:
    return _conv(info)


@kernel("FusedConv", since=(1,), domain=MS, types={"T": FLOATS})
def fused_conv(info: OpKernelInfo) -> Compute:
    """activation(conv(x, w) + bias + residual)."""
    return _conv(info)
