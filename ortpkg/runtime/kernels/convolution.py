"""Conv and FusedConv: the input's windows, laid out as columns, times the weights.

A panel holds the windows of some rows of outputs, or of all rows of some groups. One product on
numpy's BLAS computes the outputs of a panel.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ortpkg.foundations.isolation.polling import poll_run
from ortpkg.runtime.kernels.activation_table import fused_activation
from ortpkg.runtime.kernels.activations import apply_activation
from ortpkg.runtime.kernels.axes import element_count, grid
from ortpkg.runtime.kernels.blas_threads import matmul
from ortpkg.runtime.kernels.element_types import FLOATS, compute_dtype, widened, widened_nbytes
from ortpkg.runtime.kernels.im2col import padded_image, window_view
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor
from ortpkg.runtime.kernels.sliding_windows import SlidingWindows, WindowAttributes

MS = "com.microsoft"
#: Most bytes of windows that are laid out at a time.
PANEL_NBYTES = 1 << 20


def check_conv_shapes(
    x: tuple[int, ...], w: tuple[int, ...], group: int, bias: Tensor | None
) -> None:
    """Raise ValueError if input, weight, groups and bias of a convolution do not fit together."""
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
    x: Tensor,
    weight: Tensor,
    group: int,
    windows: SlidingWindows,
    out: Tensor,
    zero_point: float = 0,
) -> None:
    """Write the convolution of ``x - zero_point`` into ``out``, in the weights' float type.

    Args:
        x: (N, C, *spatial); padding stands for 0.
        weight: (M, C / group, *kernel).
        group: number of groups.
        windows: windows of the node over ``x``.
        out: (N, M, *outputs) of the weights' type, C-contiguous.
        zero_point: subtracted from each element of ``x``.
    """
    if out.size == 0:
        return
    channels, per_row, rows = weight.shape[1], element_count(windows.output[1:]), windows.output[0]
    depth = element_count(weight.shape[1:])
    matrices = weight.reshape(group, weight.shape[0] // group, depth)
    sums = out.reshape(out.shape[0], group, matrices.shape[1], rows * per_row)
    row_nbytes = max(depth * per_row * weight.itemsize, 1)
    step = min(max(PANEL_NBYTES // row_nbytes, 1), rows)
    together = max(PANEL_NBYTES // (row_nbytes * step), 1)
    for image, first in grid(range(x.shape[0]), range(0, group, together)):
        groups = slice(first, min(first + together, group))
        group_image = x[image, groups.start * channels : groups.stop * channels]
        padded = padded_image(group_image, windows, weight.dtype, zero_point)
        for start in range(0, rows, step):
            poll_run()
            stop = min(start + step, rows)
            positions = slice(start * per_row, stop * per_row)
            columns = window_view(padded, windows, start, stop)
            columns = columns.reshape(groups.stop - groups.start, depth, (stop - start) * per_row)
            matmul(matrices[groups], columns, out=sums[image, groups, :, positions])


@lru_cache(maxsize=1024)
def convolution_nbytes(
    x: tuple[int, ...], w: tuple[int, ...], windows: SlidingWindows, itemsize: int
) -> int:
    """Return the most bytes that :func:`convolve` takes: a padded image, a panel of windows."""
    spatial = (
        b + size + a for b, size, a in zip(windows.before, x[2:], windows.after, strict=True)
    )
    row = element_count(w[1:]) * element_count(windows.output[1:]) * itemsize
    return itemsize * x[1] * element_count(tuple(spatial)) + max(row, PANEL_NBYTES)


def _conv(info: OpKernelInfo) -> Compute:
    attributes, group = WindowAttributes.of(info), info.attribute("group", 1)
    activation = fused_activation(info)
    constant = info.constant_input(1)
    # A float32 constant is used where it lies; only narrow floats need another copy.
    prepared = None
    if constant is not None and widened(constant) is not constant:
        prepared = info.prepacked("weight", lambda: widened(constant))

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
        if residual is not None and residual.shape != out.shape:
            raise ValueError(
                f"a residual of shape {residual.shape} does not fit the output's shape {out.shape}"
            )
        dtype = compute_dtype(x.dtype)
        context.check_allocation(
            convolution_nbytes(x.shape, weight.shape, windows, dtype.itemsize)
            + widened_nbytes(out, weight)
        )
        result = out if out.dtype == dtype else np.empty(out.shape, dtype)
        convolve(x, widened(weight) if prepared is None else prepared, group, windows, result)
        if bias is not None:
            result += widened(bias).reshape(-1, *(1,) * (x.ndim - 2))
        if residual is not None:
            result += residual
        if activation is not None:
            apply_activation(activation, result, result)
        if result is not out:
            np.copyto(out, result, casting="unsafe")
        return out

    return compute


@kernel("Conv", since=(1, 11, 22), types={"T": FLOATS})
def conv(info: OpKernelInfo) -> Compute:
    return _conv(info)


@kernel("FusedConv", since=(1,), domain=MS, types={"T": FLOATS})
def fused_conv(info: OpKernelInfo) -> Compute:
    """activation(conv(x, w) + bias + residual)."""
    return _conv(info)
