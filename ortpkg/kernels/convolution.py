"""Conv and FusedConv: matrix products over panels of unrolled windows (im2col), one panel at a time in cache.

Three ways, chosen by shape at run time: pointwise convolutions are one product on the input as it lies; depthwise ones
go to ``depthwise_convolution``; the rest unrolls a panel of windows, multiplies it into its place in the output, and
applies bias, residual and activation while the panel is still in cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ortpkg.kernels.activation_table import fused_activation
from ortpkg.kernels.activations import Block
from ortpkg.kernels.axes import element_count
from ortpkg.kernels.depthwise_convolution import convolve_depthwise
from ortpkg.kernels.element_types import FLOATS, compute_dtype, widened
from ortpkg.kernels.kernel_registry import kernel
from ortpkg.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor
from ortpkg.kernels.windows import WindowAttributes, Windows

MS = "com.microsoft"
#: Bytes of unrolled windows per panel: about what a core's second-level cache holds beside the weights.
PANEL_NBYTES = 1 << 20
#: Finishes a panel of the output (images, channels, positions): bias, residual, activation.
Finish = Callable[[Tensor, slice, slice], None]


def padded(x: Tensor, windows: Windows, fill: float = 0) -> Tensor:
    """``x`` (..., spatial) with the windows' padding around it; ``x`` itself where there is none."""
    if not any(windows.before) and not any(windows.after):
        return x
    rank = len(windows.kernel)
    spatial = x.shape[-rank:]
    sizes = [b + size + a for b, size, a in zip(windows.before, spatial, windows.after, strict=True)]
    out = np.full((*x.shape[:-rank], *sizes), fill, x.dtype)
    inner: list[Any] = [slice(b, b + size) for b, size in zip(windows.before, spatial, strict=True)]
    out[(..., *inner)] = x
    return out


def unrolled(x: Tensor, windows: Windows) -> Tensor:
    """A view (channels, *kernel, *output) of the windows over a padded image (channels, *spatial)."""
    rank = len(windows.kernel)
    steps = x.strides[1:]
    return as_strided(
        x,
        shape=(x.shape[0], *windows.kernel, *windows.output),
        strides=(
            x.strides[0],
            *(steps[axis] * windows.dilations[axis] for axis in range(rank)),
            *(steps[axis] * windows.strides[axis] for axis in range(rank)),
        ),
        writeable=False,
    )


def check_conv_shapes(x: tuple[int, ...], w: tuple[int, ...], group: int, bias: Tensor | None) -> None:
    """ValueError where input, weight, groups and bias of a convolution do not fit each other."""
    if len(x) < 3 or len(w) != len(x):
        raise ValueError(
            f"an input of shape {x} and a weight of shape {w} are not (N, C, D1, ...) and (M, C/group, k1, ...)"
        )
    if group < 1 or x[1] != w[1] * group or w[0] % group:
        raise ValueError(f"an input of {x[1]} channels does not fit a weight of shape {w} in {group} groups")
    if bias is not None and bias.shape != (w[0],):
        raise ValueError(f"a bias of shape {bias.shape} does not fit {w[0]} output channels")


def _pointwise(x: Tensor, weight: Tensor, windows: Windows, out: Tensor, finish: Finish) -> None:
    """Windows of one element: a product per image, of the (strided) image itself."""
    if any(stride != 1 for stride in windows.strides):
        every: list[Any] = [slice(None, None, stride) for stride in windows.strides]
        x = np.ascontiguousarray(x[(..., *every)])
    positions = element_count(windows.output)
    for n in range(x.shape[0]):
        result = out[n].reshape(weight.shape[0], positions)
        np.matmul(weight, x[n].reshape(x.shape[1], positions), out=result)
        finish(result, slice(n, n + 1), slice(0, positions))


def _by_panels(x: Tensor, weight: Tensor, windows: Windows, out: Tensor, finish: Finish) -> None:
    """Unrolls as many rows of windows as a panel holds, multiplies, finishes; image by image."""
    depth, rest = weight.shape[1], element_count(windows.output[1:])
    rows = windows.output[0]
    step = min(max(PANEL_NBYTES // max(depth * rest * x.itemsize, 1), 1), rows)
    panel = np.empty(depth * step * rest, x.dtype)
    for n in range(x.shape[0]):
        source = unrolled(padded(x[n], windows), windows)
        before = (slice(None),) * (source.ndim - len(windows.output))
        result = out[n].reshape(weight.shape[0], rows * rest)
        for start in range(0, rows, step):
            stop = min(start + step, rows)
            columns = panel[: depth * (stop - start) * rest]
            part = source[(*before, slice(start, stop))]
            np.copyto(columns.reshape(part.shape), part)
            place = slice(start * rest, stop * rest)
            target = result[:, place]
            np.matmul(weight, columns.reshape(depth, -1), out=target)
            finish(target, slice(n, n + 1), place)


def convolve(
    x: Tensor, weight: Tensor, windows: Windows, group: int, out: Tensor, finish: Callable[[int, int], Finish]
) -> None:
    """``out = conv(x, weight)`` for one float dtype; ``finish(first, last)`` gives the finish of those channels."""
    if out.size == 0:
        return
    per_group, channels = weight.shape[0] // group, weight.shape[1]
    if channels == 1 and group > 1 and len(windows.kernel) <= 2:
        convolve_depthwise(x, weight, windows, out)
        positions = element_count(windows.output)
        for n in range(out.shape[0]):
            finish(0, weight.shape[0])(out[n].reshape(-1, positions), slice(n, n + 1), slice(0, positions))
        return
    way = _pointwise if windows.is_pointwise else _by_panels
    for g in range(group):
        first, last = g * per_group, (g + 1) * per_group
        matrix = weight[first:last].reshape(per_group, -1)
        way(x[:, g * channels : (g + 1) * channels], matrix, windows, out[:, first:last], finish(first, last))


def _finisher(bias: Tensor | None, residual: Tensor | None, activation: Block | None) -> Callable[[int, int], Finish]:
    def of_channels(first: int, last: int) -> Finish:
        column = None if bias is None else bias[first:last, None]

        def finish(panel: Tensor, images: slice, positions: slice) -> None:
            if column is not None:
                panel += column
            if residual is not None:
                plane = residual[images.start, first:last]
                panel += plane.reshape(panel.shape[0], -1)[:, positions]
            if activation is not None:
                activation(panel, panel)

        return finish

    return of_channels


def _scratch_nbytes(x: tuple[int, ...], w: tuple[int, ...], windows: Windows, itemsize: int) -> int:
    """At most what a run allocates besides the output: a padded image and a panel of unrolled windows."""
    if windows.is_pointwise:
        return itemsize * element_count(x[1:])
    spatial = (b + size + a for b, size, a in zip(windows.before, x[2:], windows.after, strict=True))
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
        context: OpKernelContext, x: Tensor, weight: Tensor, bias: Tensor | None = None, residual: Tensor | None = None
    ) -> Tensor:
        check_conv_shapes(x.shape, weight.shape, group, bias)
        windows = attributes.windows(x.shape[2:], weight.shape[2:])
        if windows.kernel != weight.shape[2:]:
            raise ValueError(f"kernel_shape {windows.kernel} is not that of the weight, {weight.shape}")
        out = context.output(0, (x.shape[0], weight.shape[0], *windows.output), x.dtype)
        dtype = compute_dtype(x.dtype)
        context.check_allocation(_scratch_nbytes(x.shape, weight.shape, windows, dtype.itemsize))
        result = out if out.dtype == dtype else np.empty(out.shape, dtype)
        wide_bias = None if bias is None else widened(bias)
        wide_residual = None if residual is None else widened(residual)
        if wide_residual is not None and wide_residual.shape != out.shape:
            raise ValueError(f"a residual of shape {wide_residual.shape} does not fit the output's shape {out.shape}")
        finish = _finisher(wide_bias, wide_residual, activation)
        convolve(widened(x), widened(weight) if prepared is None else prepared, windows, group, result, finish)
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
