"""Conv and FusedConv, spread over threads in panels of the output that stay in cache.

Four ways, chosen by shape: pointwise convolutions are one product on the input as it lies; depthwise ones go to
``depthwise_convolution``; 3 x 3 ones with many channels to ``winograd``; the rest unrolls a panel of windows (im2col)
and multiplies it into its place in the output. Bias, residual and activation follow while the panel is in cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ortpkg.graph.types import TensorType
from ortpkg.kernels import intra_op, winograd
from ortpkg.kernels.activation_table import fused_activation
from ortpkg.kernels.activations import Block
from ortpkg.kernels.axes import element_count
from ortpkg.kernels.depthwise_convolution import convolve_depthwise
from ortpkg.kernels.element_types import FLOATS, compute_dtype, widened
from ortpkg.kernels.im2col import Panel, panels
from ortpkg.kernels.kernel_registry import kernel
from ortpkg.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor
from ortpkg.kernels.scratch import take_scratch
from ortpkg.kernels.windows import WindowAttributes, Windows

MS = "com.microsoft"
#: Bytes of unrolled windows per panel: about what a core's second-level cache holds beside the weights.
PANEL_NBYTES = 1 << 20
#: Fewer columns than these make a product slow: work is then cut by rows (output channels) instead.
_LEAST_COLUMNS = 96
_FLOAT32 = np.dtype(np.float32)


@dataclass(frozen=True, slots=True)
class Epilogue:
    """What follows the sum: a bias per channel, a residual of the output's shape, an activation. Any may be None."""

    bias: Tensor | None = None
    residual: Tensor | None = None
    activation: Block | None = None

    def finish(self, part: Tensor, image: int, channels: slice, positions: slice) -> None:
        """Finishes ``part`` (channels, positions) of an image's output in place."""
        if self.bias is not None:
            np.add(part, self.bias[channels, None], out=part)
        self.finish_biased(part, image, channels, positions)

    def finish_biased(self, part: Tensor, image: int, channels: slice, positions: slice) -> None:
        """The same where the bias is in already."""
        if self.residual is not None:
            plane = self.residual[image, channels]
            np.add(part, plane.reshape(plane.shape[0], -1)[:, positions], out=part)
        if self.activation is not None:
            self.activation(part, part)


@dataclass(frozen=True, slots=True)
class Filter:
    """Weights as the product takes them.

    Attributes:
        values: (M, C / group, *kernel).
        group: number of groups.
        transformed: the same for :mod:`.winograd`, (36, M, C); None where that way is not to be taken.
    """

    values: Tensor
    group: int
    transformed: Tensor | None = None


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


def convolve(x: Tensor, weights: Filter, windows: Windows, out: Tensor, epilogue: Epilogue) -> None:
    """``out = epilogue(conv(x, weights))``, all of one float type."""
    if out.size == 0:
        return
    with intra_op.held():
        if weights.values.shape[1] == 1 and weights.group > 1 and len(windows.kernel) <= 2:
            convolve_depthwise(x, weights.values, windows, out, epilogue.finish)
        elif windows.is_pointwise:
            _pointwise(x, weights, windows, out, epilogue)
        else:
            if len(windows.kernel) == 1:  # panels are cut along the first axis, so the one of size 1 goes behind it
                x, out, windows = x[..., None], out[..., None], windows.with_axis(1)
            for image in range(x.shape[0]):
                if weights.transformed is not None and winograd.is_tame(x[image]):
                    _by_winograd(x, weights.transformed, windows, out, epilogue, image)
                else:
                    _by_panels(x, weights, windows, out, epilogue, image)


def _by_winograd(x: Tensor, weight: Tensor, windows: Windows, out: Tensor, epilogue: Epilogue, image: int) -> None:
    planes = out[image].reshape(out.shape[1], -1)
    width = windows.output[1]

    def finish(rows: slice, channels: slice) -> None:
        positions = slice(rows.start * width, rows.stop * width)
        epilogue.finish_biased(planes[channels, positions], image, channels, positions)

    winograd.convolve(x[image], weight, epilogue.bias, windows, out[image], finish)


def _cuts(count: int, parts: int, least: int, multiple: int = 16) -> list[slice]:
    """0 to ``count`` in at most ``parts`` slices of at least ``least``, each but the last a multiple of 16 long."""
    step = max(-(-count // max(parts, 1)), least, 1)
    step = -(-step // multiple) * multiple
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]


def _pointwise(x: Tensor, weights: Filter, windows: Windows, out: Tensor, epilogue: Epilogue) -> None:
    """Windows of one element: products of the (strided) images themselves, cut by positions, else by channels."""
    if any(stride != 1 for stride in windows.strides):
        every: list[Any] = [slice(None, None, stride) for stride in windows.strides]
        (dense,) = take_scratch(((*x.shape[:2], *windows.output), x.dtype))
        np.copyto(dense, x[(..., *every)])
        x = dense
    count, (filters, channels) = element_count(windows.output), weights.values.shape[:2]
    matrix, per_group = weights.values.reshape(filters, channels), filters // weights.group
    columns, rows = x.reshape(*x.shape[:2], count), out.reshape(*out.shape[:2], count)
    threads = intra_op.thread_count()
    fitting = max(PANEL_NBYTES // (max(per_group, channels) * x.itemsize), _LEAST_COLUMNS)
    positions = _cuts(count, max(-(-count // fitting), threads), _LEAST_COLUMNS)
    is_short = len(positions) * x.shape[0] * weights.group < threads
    parts = _cuts(per_group, threads if is_short else 1, 16)
    tasks = [
        (image, group, part, place)
        for image in range(x.shape[0])
        for group in range(weights.group)
        for place in positions
        for part in parts
    ]

    def multiply(number: int) -> None:
        image, group, part, place = tasks[number]
        own = slice(group * per_group + part.start, group * per_group + part.stop)
        target = rows[image, own, place]
        np.matmul(matrix[own], columns[image, group * channels : (group + 1) * channels, place], out=target)
        epilogue.finish(target, image, own, place)

    intra_op.parallel_for(len(tasks), multiply)


def _by_panels(x: Tensor, weights: Filter, windows: Windows, out: Tensor, epilogue: Epilogue, image: int) -> None:
    """Unrolls as many rows of windows as a panel holds, multiplies, finishes."""
    depth = element_count(weights.values.shape[1:])
    count, rest = windows.output[0], element_count(windows.output[1:])
    threads = intra_op.thread_count()
    rows = min(max(PANEL_NBYTES // max(depth * rest * x.itemsize, 1), 1), count)
    if rows * threads > count * weights.group and count * rest >= threads * _LEAST_COLUMNS:
        rows = -(-count // threads)
    cut = panels(windows, x.shape[2:], rows)

    def run(number: int) -> None:
        group, panel = divmod(number, len(cut))
        _panel(x, weights, cut[panel], out, epilogue, image, group)

    intra_op.parallel_for(weights.group * len(cut), run)


def _panel(x: Tensor, weights: Filter, panel: Panel, out: Tensor, epilogue: Epilogue, image: int, group: int) -> None:
    """One panel of one group; spread over threads where it is not itself one of several."""
    channels, per_group = weights.values.shape[1], weights.values.shape[0] // weights.group
    source = x[image, group * channels : (group + 1) * channels]
    band, columns = take_scratch((panel.band_shape(channels), x.dtype), (panel.column_shape(channels), x.dtype))
    place, threads = panel.positions, intra_op.thread_count()
    planes = out[image].reshape(out.shape[1], -1)
    matrix = weights.values.reshape(weights.values.shape[0], -1)
    flat = columns.reshape(matrix.shape[1], -1)
    channel_parts = _cuts(channels, threads, 1, 1)
    filter_parts = _cuts(per_group, threads, 16)

    def unroll(number: int) -> None:
        own = channel_parts[number]
        panel.fill_band(source[own], band[own])
        panel.unroll(band[own], columns[own])

    def multiply(number: int) -> None:
        part = filter_parts[number]
        own = slice(group * per_group + part.start, group * per_group + part.stop)
        target = planes[own, place]
        np.matmul(matrix[own], flat, out=target)
        epilogue.finish(target, image, own, place)

    intra_op.parallel_for(len(channel_parts), unroll)
    intra_op.parallel_for(len(filter_parts), multiply)


def _scratch_nbytes(x: tuple[int, ...], w: tuple[int, ...], windows: Windows, itemsize: int) -> int:
    """At most what a run takes besides the output: on every thread a padded image and a panel of unrolled windows."""
    if windows.is_pointwise:
        return itemsize * element_count(x)
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
    transformed = _transformed(info, attributes, constant if prepared is None else prepared, group)

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
        weights = Filter(
            widened(weight) if prepared is None else prepared,
            group,
            transformed if transformed is not None and winograd.suits(windows, weight.shape) else None,
        )
        convolve(widened(x), weights, windows, result, Epilogue(wide_bias, wide_residual, activation))
        if result is not out:
            np.copyto(out, result, casting="unsafe")
        return out

    return compute


def _transformed(info: OpKernelInfo, attributes: WindowAttributes, weight: Tensor | None, group: int) -> Tensor | None:
    """A constant filter's transform, where what is known of the input does not rule that way out."""
    if weight is None or weight.dtype != _FLOAT32 or group != 1 or not winograd.worth_it(weight.shape):
        return None
    declared = info.input_type(0)
    shape = declared.shape if isinstance(declared, TensorType) else None
    if shape is None or len(shape) != 4 or not all(isinstance(size, int) for size in shape[2:]):
        return None
    windows = attributes.windows([int(size) for size in shape[2:] if isinstance(size, int)], weight.shape[2:])
    if not winograd.suits(windows, weight.shape):
        return None
    return info.prepacked("winograd filter", lambda: winograd.transformed_filter(weight))


@kernel("Conv", since=(1, 11, 22), types={"T": FLOATS})
def conv(info: OpKernelInfo) -> Compute:
    return _conv(info)


@kernel("FusedConv", since=(1,), domain=MS, types={"T": FLOATS})
def fused_conv(info: OpKernelInfo) -> Compute:
    """activation(conv(x, w) + bias + residual)."""
    return _conv(info)
