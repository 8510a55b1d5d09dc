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
from ortpkg.kernels.axes import element_count
from ortpkg.kernels.blas_threads import held_to_one_thread
from ortpkg.kernels.conv_epilogue import Epilogue
from ortpkg.kernels.depthwise_convolution import convolve_depthwise
from ortpkg.kernels.element_types import FLOATS, compute_dtype, widened
from ortpkg.kernels.im2col import Panel, panels
from ortpkg.kernels.kernel_registry import kernel
from ortpkg.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor
from ortpkg.kernels.scratch import Slot, take_scratch
from ortpkg.kernels.ufunc_buffers import small_ufunc_buffers
from ortpkg.kernels.windows import WindowAttributes, Windows

MS = "com.microsoft"
#: Bytes of unrolled windows per panel: about what a core's second-level cache holds beside the weights.
PANEL_NBYTES = 1 << 20
#: Fewer columns than these make a product slow: work is then cut by rows (output channels) instead.
_LEAST_COLUMNS = 96
#: Fewer rows than these do not pay for packing the matrix on the right once more.
_LEAST_ROWS = 64
#: Copies of fewer elements are not worth a second thread.
_LEAST_SHARED_ELEMENTS = 1 << 17
_FLOAT32 = np.dtype(np.float32)


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


def convolve(x: Tensor, weights: Filter, windows: Windows, epilogue: Epilogue, zero_point: float = 0) -> None:
    """``epilogue(conv(x - zero_point, weights))``, computed in the weights' float type; padding stands for 0."""
    if epilogue.out.size == 0:
        return
    with held_to_one_thread(), small_ufunc_buffers():
        if weights.values.shape[1] == 1 and weights.group > 1 and len(windows.kernel) <= 2:
            convolve_depthwise(x, weights.values, windows, epilogue, zero_point)
            return
        if windows.is_pointwise:
            _pointwise(x, weights, windows, epilogue, zero_point)
            return
        if len(windows.kernel) == 1:  # panels are cut along the first axis, so the one of size 1 goes behind it
            x, windows = x[..., None], windows.with_axis(1)
        for image in range(x.shape[0]):
            if weights.transformed is not None and winograd.is_tame(x[image]):
                winograd.convolve(x[image], weights.transformed, windows, epilogue, image)
            else:
                _by_panels(x, weights, windows, epilogue, image, zero_point)


def _cuts(count: int, parts: int, least: int, multiple: int = 16) -> list[slice]:
    """0 to ``count`` in at most ``parts`` slices of at least ``least``, each but the last a multiple of 16 long."""
    step = max(-(-count // max(parts, 1)), least, 1)
    step = -(-step // multiple) * multiple
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]


def _dense(x: Tensor, windows: Windows, dtype: np.dtype[Any], zero_point: float) -> Tensor:
    """The elements of ``x`` at the strides, in ``dtype``, as (N, C, positions)."""
    every: list[Any] = [slice(None, None, stride) for stride in windows.strides]
    x = x[(..., *every)]
    (dense,) = take_scratch(Slot.SHARED, (x.shape, dtype))
    parts = _cuts(x.shape[1], intra_op.thread_count() if x.size > _LEAST_SHARED_ELEMENTS else 1, 1, 1)

    def copy(number: int) -> None:
        target = dense[:, parts[number]]
        np.copyto(target, x[:, parts[number]], casting="unsafe")
        if zero_point:
            np.subtract(target, dtype.type(zero_point), out=target)

    intra_op.parallel_for(len(parts), copy)
    return dense.reshape(*x.shape[:2], -1)


def _pointwise(x: Tensor, weights: Filter, windows: Windows, epilogue: Epilogue, zero_point: float) -> None:
    """Windows of one element: products of the (strided) images themselves, cut by positions, else by channels."""
    count, (filters, channels) = element_count(windows.output), weights.values.shape[:2]
    matrix, per_group = weights.values.reshape(filters, channels), filters // weights.group
    if any(stride != 1 for stride in windows.strides) or x.dtype != matrix.dtype or zero_point:
        columns = _dense(x, windows, matrix.dtype, zero_point)
    else:
        columns = x.reshape(*x.shape[:2], count)
    threads = intra_op.thread_count()
    images = x.shape[0] * weights.group
    # Whole rows are passed over faster than stretches of them, but packing the input for few rows does not pay.
    by_rows = images < threads and (per_group >= threads * _LEAST_ROWS or count < threads * _LEAST_COLUMNS)
    pieces = threads if images < threads else 1
    parts = _cuts(per_group, pieces if by_rows else 1, 16)
    positions = _cuts(count, 1 if by_rows else pieces, _LEAST_COLUMNS)
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
        target = epilogue.part(image, own, place)
        np.matmul(matrix[own], columns[image, group * channels : (group + 1) * channels, place], out=target)
        epilogue.finish(target, image, own, place)

    intra_op.parallel_for(len(tasks), multiply)


def _by_panels(x: Tensor, weights: Filter, windows: Windows, epilogue: Epilogue, image: int, zero_point: float) -> None:
    """Unrolls as many rows of windows as a panel holds, multiplies, finishes."""
    depth = element_count(weights.values.shape[1:])
    count, rest = windows.output[0], element_count(windows.output[1:])
    threads = intra_op.thread_count()
    rows = min(max(PANEL_NBYTES // max(depth * rest * weights.values.itemsize, 1), 1), count)
    if rows * threads > count * weights.group and count * rest >= threads * _LEAST_COLUMNS:
        rows = -(-count // threads)
    cut = panels(windows, x.shape[2:], rows)

    def run(number: int) -> None:
        group, panel = divmod(number, len(cut))
        first = group * weights.values.shape[1]
        source = x[image, first : first + weights.values.shape[1]]
        _panel(source, weights, cut[panel], epilogue, (image, group), zero_point)

    intra_op.parallel_for(weights.group * len(cut), run)


def _panel(
    x: Tensor, weights: Filter, panel: Panel, epilogue: Epilogue, where: tuple[int, int], zero_point: float
) -> None:
    """One panel of one image and group; spread over threads where it is not itself one of several."""
    image, group = where
    (filters, channels), dtype = weights.values.shape[:2], weights.values.dtype
    per_group = filters // weights.group
    band, columns = take_scratch(Slot.PANEL, (panel.band_shape(channels), dtype), (panel.column_shape(channels), dtype))
    place, threads = panel.positions, intra_op.thread_count()
    matrix = weights.values.reshape(filters, -1)
    flat = columns.reshape(matrix.shape[1], -1)
    channel_parts = _cuts(channels, threads, 1, 1)
    filter_parts = _cuts(per_group, threads, 16)

    def unroll(number: int) -> None:
        own = channel_parts[number]
        panel.fill_band(x[own], band[own], zero_point)
        panel.unroll(band[own], columns[own])

    def multiply(number: int) -> None:
        part = filter_parts[number]
        own = slice(group * per_group + part.start, group * per_group + part.stop)
        target = epilogue.part(image, own, place)
        np.matmul(matrix[own], flat, out=target)
        epilogue.finish(target, image, own, place)

    intra_op.parallel_for(len(channel_parts), unroll)
    intra_op.parallel_for(len(filter_parts), multiply)


def scratch_nbytes(x: tuple[int, ...], w: tuple[int, ...], windows: Windows, itemsize: int) -> int:
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
        context.check_allocation(scratch_nbytes(x.shape, weight.shape, windows, dtype.itemsize))
        if residual is not None and residual.shape != out.shape:
            raise ValueError(f"a residual of shape {residual.shape} does not fit the output's shape {out.shape}")
        weights = Filter(
            widened(weight) if prepared is None else prepared,
            group,
            transformed if transformed is not None and winograd.suits(windows, weight.shape) else None,
        )
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
