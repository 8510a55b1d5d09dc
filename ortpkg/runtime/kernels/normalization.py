"""Normalizations: Batch-, Instance-, Group-, Layer-, RMSNormalization, LRN, Lp, MeanVariance.

Statistics of narrow floats are computed in float32, in row panels that stay in cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ortpkg.runtime.kernels.axes import broadcast_shape, element_count, normalized_axis
from ortpkg.runtime.kernels.element_types import FLOATS, compute_dtype, widened, widened_nbytes
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor
from ortpkg.runtime.kernels.special_functions import BLOCK

#: Elements of a panel of rows that is normalized at a time: several passes find it in cache.
_PANEL = 4 * BLOCK


def over_row_panels(work: Callable[[slice], object], rows: int, columns: int) -> None:
    """Call ``work`` on slices of rows such that a panel of them stays in cache."""
    if not columns:
        return
    step = max(_PANEL // max(columns, 1), 1)
    for start in range(0, rows, step):
        work(slice(start, min(start + step, rows)))


def normalize_rows(x: Tensor, out: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """Compute ``out = (x - mean) / sqrt(variance + epsilon)`` per row; ``out`` may be ``x``.

    Returns:
        Mean and 1 / sqrt(variance + epsilon), as columns.
    """
    mean: Tensor = x.mean(axis=1, keepdims=True)
    np.subtract(x, mean, out=out)
    inverse = np.vecdot(out, out)[:, None]
    inverse /= x.shape[1]
    inverse += epsilon
    np.sqrt(inverse, out=inverse)
    np.reciprocal(inverse, out=inverse)
    np.multiply(out, inverse, out=out)
    return mean, inverse


def normalize_rows_by_rms(x: Tensor, out: Tensor, epsilon: float) -> Tensor:
    """Compute ``out = x / sqrt(mean(x²) + epsilon)`` per row; ``out`` may be ``x``.

    Returns:
        The factors.
    """
    inverse: Tensor = np.vecdot(x, x)[:, None]
    inverse /= x.shape[1]
    inverse += epsilon
    np.sqrt(inverse, out=inverse)
    np.reciprocal(inverse, out=inverse)
    np.multiply(x, inverse, out=out)
    return inverse


def _row_parameter(
    parameter: Tensor | None, shape: tuple[int, ...], axis: int, what: str
) -> Tensor | None:
    """Return a flat row of a scale or bias of the normalized axes, else broadcast to all rows.

    Raises:
        ValueError: it does not broadcast to the input.
    """
    if parameter is None:
        return None
    if broadcast_shape(parameter.shape, shape) != shape:
        raise ValueError(
            f"{what} of shape {parameter.shape} does not broadcast to the input's shape {shape}"
        )
    columns = element_count(shape[axis:])
    if parameter.shape == shape[axis:]:
        return widened(parameter).reshape(1, columns)
    return np.broadcast_to(widened(parameter), shape).reshape(element_count(shape[:axis]), columns)


def _layer_normalization(info: OpKernelInfo, *, by_rms: bool) -> Compute:
    """Y, and on request mean (not with ``by_rms``) and inverse standard deviation.

    These are float32 for every type of input, as the operators define.
    """
    axis, epsilon = info.attribute("axis", -1), info.attribute("epsilon", 1e-5)
    n_statistics = len(info.node.outputs) - 1

    def compute(
        context: OpKernelContext, x: Tensor, scale: Tensor, bias: Tensor | None = None
    ) -> Any:
        first = normalized_axis(axis, x.ndim)
        shape = (element_count(x.shape[:first]), element_count(x.shape[first:]))
        out = context.output(0, x.shape, scale.dtype if by_rms else x.dtype)
        dtype = compute_dtype(x.dtype)
        spread = [
            parameter
            for parameter in (scale, bias)
            if parameter is not None and parameter.shape != x.shape[first:]
        ]
        copies = len(spread) + (out.dtype != dtype)
        context.check_allocation(
            widened_nbytes(x, scale, bias)
            + (copies * shape[1] + n_statistics) * shape[0] * dtype.itemsize
        )
        wide_scale = _row_parameter(scale, x.shape, first, "scale")
        wide_bias = _row_parameter(bias, x.shape, first, "bias")
        wide = widened(x).reshape(shape)
        statistics = np.full((n_statistics, shape[0], 1), np.nan, wide.dtype)  # of no values
        result = out.reshape(shape) if out.dtype == wide.dtype else np.empty(shape, wide.dtype)

        def normalize(rows: slice) -> None:
            panel = result[rows]
            if by_rms:
                panel_statistics: tuple[Tensor, ...] = (
                    normalize_rows_by_rms(wide[rows], panel, epsilon),
                )
            else:
                panel_statistics = normalize_rows(wide[rows], panel, epsilon)
            for target, statistic in zip(statistics, panel_statistics, strict=False):
                target[rows] = statistic
            if wide_scale is not None:
                panel *= wide_scale if len(wide_scale) == 1 else wide_scale[rows]
            if wide_bias is not None:
                panel += wide_bias if len(wide_bias) == 1 else wide_bias[rows]

        over_row_panels(normalize, *shape)
        if out.dtype != result.dtype:
            np.copyto(out.reshape(shape), result, casting="unsafe")
        if not n_statistics:
            return out
        columns = (*x.shape[:first], *(1,) * (x.ndim - first))
        float_statistics = statistics.astype(np.float32, copy=False)
        return (out, *(statistic.reshape(columns) for statistic in float_statistics))

    return compute


@kernel("LayerNormalization", since=(17,), types={"T": FLOATS})
@kernel("LayerNormalization", since=(1,), types={"T": FLOATS})
def layer_normalization(info: OpKernelInfo) -> Compute:
    """Layer normalization; version 1 is onnxruntime's, which old exporters put in the main domain.

    It computes the same as version 17.
    """
    return _layer_normalization(info, by_rms=False)


@kernel("RMSNormalization", since=(23,), types={"T": FLOATS, "V": FLOATS})
@kernel("SimplifiedLayerNormalization", since=(1,), types={"T": FLOATS, "V": FLOATS})
@kernel(
    "SimplifiedLayerNormalization",
    since=(1,),
    domain="com.microsoft",
    types={"T": FLOATS, "V": FLOATS},
)
def rms_normalization(info: OpKernelInfo) -> Compute:
    return _layer_normalization(info, by_rms=True)


def _wide_nbytes(x: Tensor) -> int:
    """Return the bytes of an array like ``x`` in its compute type."""
    return x.size * compute_dtype(x.dtype).itemsize


# --- statistics over planes -----------------------------------------------------------------------


def _normalized_planes(x: Tensor, planes: int, epsilon: float) -> Tensor:
    """Return a new array like ``x`` in its compute type, normalized in ``planes`` equal parts."""
    wide = widened(x).reshape(planes, -1) if x.size else widened(x).reshape(planes, 0)
    out = np.empty(wide.shape, wide.dtype)
    over_row_panels(lambda rows: normalize_rows(wide[rows], out[rows], epsilon), *wide.shape)
    return out.reshape(x.shape)


def _by_channel(parameter: Tensor, x: Tensor) -> Tensor:
    """Return a per-channel parameter shaped to broadcast over (N, C, ...).

    Raises:
        ValueError: it does not have C elements.
    """
    if x.ndim < 2 or parameter.shape != x.shape[1:2]:
        raise ValueError(
            f"parameters of shape {parameter.shape} do not fit the channels of an input of"
            f" {x.shape}"
        )
    return widened(parameter).reshape((-1,) + (1,) * (x.ndim - 2))


@kernel("InstanceNormalization", since=(1, 6, 22), types={"T": FLOATS})
def instance_normalization(info: OpKernelInfo) -> Compute:
    epsilon = info.attribute("epsilon", 1e-5)

    def compute(context: OpKernelContext, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
        wide_scale, wide_bias = _by_channel(scale, x), _by_channel(bias, x)
        out = context.output(0, x.shape, x.dtype)
        context.check_allocation(widened_nbytes(x) + _wide_nbytes(x) + _wide_nbytes(x[:1, :1]))
        result = _normalized_planes(x, x.shape[0] * x.shape[1], epsilon)
        result *= wide_scale
        np.add(result, wide_bias, out=out, casting="unsafe")
        return out

    return compute


@kernel("GroupNormalization", since=(18, 21), types={"T": FLOATS})
def group_normalization(info: OpKernelInfo) -> Compute:
    """Normalization of groups of channels.

    Version 18 has one scale and bias per group, version 21 per channel.
    """
    epsilon, groups = info.attribute("epsilon", 1e-5), info.attribute("num_groups")
    per_group = info.node.since_version < 21

    def compute(context: OpKernelContext, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
        if x.ndim < 2 or x.shape[1] % groups:
            raise ValueError(
                f"{groups} groups do not divide the channels of an input of shape {x.shape}"
            )
        if per_group:
            group_size = x.shape[1] // groups
            scale, bias = np.repeat(scale, group_size), np.repeat(bias, group_size)
        wide_scale, wide_bias = _by_channel(scale, x), _by_channel(bias, x)
        out = context.output(0, x.shape, x.dtype)
        context.check_allocation(widened_nbytes(x) + _wide_nbytes(x) + _wide_nbytes(x[:1]))
        result = _normalized_planes(x, x.shape[0] * groups, epsilon)
        result *= wide_scale
        np.add(result, wide_bias, out=out, casting="unsafe")
        return out

    return compute


@kernel("MeanVarianceNormalization", since=(9, 13), types={"T": FLOATS})
def mean_variance_normalization(info: OpKernelInfo) -> Compute:
    """(x - mean) / (sqrt(E[x²] - mean²) + 1e-9) over ``axes``."""
    axes = tuple(info.attribute("axes", (0, 2, 3)))

    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        out = context.output(0, x.shape, x.dtype)
        if not x.size:
            return out
        context.check_allocation(widened_nbytes(x) + 2 * _wide_nbytes(x))
        wide = widened(x)
        centred = wide - wide.mean(axis=axes, keepdims=True)
        deviation = np.sqrt(np.square(centred).mean(axis=axes, keepdims=True))
        np.divide(centred, deviation + deviation.dtype.type(1e-9), out=out, casting="unsafe")
        return out

    return compute


# --- over channels or one axis --------------------------------------------------------------------


@kernel("LRN", since=(1, 13), types={"T": FLOATS})
def local_response_normalization(info: OpKernelInfo) -> Compute:
    """x / (bias + alpha / size · sum of squares over ``size`` neighbouring channels) ** beta."""
    size, alpha = info.attribute("size"), info.attribute("alpha", 1e-4)
    beta, bias = info.attribute("beta", 0.75), info.attribute("bias", 1.0)
    below, above = (size - 1) // 2, size - 1 - (size - 1) // 2

    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        if x.ndim < 3:
            raise ValueError(f"LRN needs an input (N, C, D1, ...), but the shape is {x.shape}")
        out = context.output(0, x.shape, x.dtype)
        context.check_allocation(widened_nbytes(x) + 2 * _wide_nbytes(x))
        wide, channels = widened(x), x.shape[1]
        squares = np.square(wide)
        total = np.zeros_like(squares)
        for shift in range(-min(below, channels), min(above, channels) + 1):
            context.check_cancelled()
            source, target = (
                slice(max(shift, 0), channels + min(shift, 0)),
                slice(max(-shift, 0), channels - max(shift, 0)),
            )
            total[:, target] += squares[:, source]
        total *= alpha / size
        total += bias
        np.power(total, total.dtype.type(-beta), out=total)
        np.multiply(wide, total, out=out, casting="unsafe")
        return out

    return compute


@kernel("LpNormalization", since=(1, 22), types={"T": FLOATS})
def lp_normalization(info: OpKernelInfo) -> Compute:
    """x / ‖x‖ along ``axis``, or 0 where the norm is 0."""
    axis, p = info.attribute("axis", -1), info.attribute("p", 2)

    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        along = normalized_axis(axis, x.ndim)
        out = context.output(0, x.shape, x.dtype)
        if not x.size:
            return out
        context.check_allocation(widened_nbytes(x) + 2 * _wide_nbytes(x))
        wide = widened(x)
        powers = np.abs(wide) if p == 1 else np.square(wide)
        norm = np.add.reduce(powers, axis=along, keepdims=True)
        del powers
        if p != 1:
            np.sqrt(norm, out=norm)
        norm[norm == 0] = 1
        np.divide(wide, norm, out=out, casting="unsafe")
        return out

    return compute
