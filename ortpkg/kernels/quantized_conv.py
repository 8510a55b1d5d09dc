"""ConvInteger and QLinearConv: windows laid out as a matrix, multiplied exactly as in :mod:`.integer_gemm`."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ortpkg.kernels.integer_gemm import as_int32, centred, largest_centred
from ortpkg.kernels.kernel_registry import kernel
from ortpkg.kernels.linear_quantization import round_into
from ortpkg.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor
from ortpkg.kernels.quantization import BYTES

_FLOAT32_EXACT = 1 << 24


@dataclass(frozen=True, slots=True)
class _Filter:
    """Weights (M, C/group, *kernel) as float integers, in the float type that holds their products exactly."""

    values: Tensor
    group: int
    largest_sum: float


def _filter(w: Tensor, zero_point: Tensor | None, group: int) -> _Filter:
    if w.ndim < 3 or group < 1 or w.shape[0] % group:
        raise ValueError(f"weights of shape {w.shape} do not make {group} groups of a convolution")
    if zero_point is not None:  # one, or one per output channel
        zero_point = zero_point.reshape(-1, *(1,) * (w.ndim - 1))
    values = centred(w, zero_point)
    sums = np.abs(values).reshape(w.shape[0], -1).sum(axis=1, dtype=np.float64)
    return _Filter(values, group, float(sums.max(initial=0)))


@dataclass(frozen=True, slots=True)
class _Geometry:
    """A convolution's strides, dilations and paddings; ``pads`` None: computed for the input (``auto_pad``)."""

    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...] | None
    auto_pad: str

    def resolve_pads(self, sizes: tuple[int, ...], extents: tuple[int, ...]) -> list[tuple[int, int]]:
        """(before, after) per spatial axis. Source: Conv, attribute auto_pad."""
        rank = len(sizes)
        if self.auto_pad in ("NOTSET", "VALID") or self.pads is not None:
            pads = self.pads or (0,) * (2 * rank)
            return list(zip(pads[:rank], pads[rank:], strict=True))
        found = []
        for size, extent, stride in zip(sizes, extents, self.strides, strict=True):
            total = max((-(-size // stride) - 1) * stride + extent - size, 0)
            less = total // 2
            found.append((less, total - less) if self.auto_pad == "SAME_UPPER" else (total - less, less))
        return found


def _geometry(info: OpKernelInfo, rank: int) -> _Geometry:
    auto_pad = info.attribute("auto_pad", "NOTSET")
    pads = info.attribute("pads") if auto_pad == "NOTSET" else None
    geometry = _Geometry(
        strides=tuple(info.attribute("strides") or (1,) * rank),
        dilations=tuple(info.attribute("dilations") or (1,) * rank),
        pads=tuple(pads) if pads else None,
        auto_pad=auto_pad,
    )
    if (
        len(geometry.strides) != rank
        or len(geometry.dilations) != rank
        or len(geometry.pads or (0,) * (2 * rank)) != 2 * rank
        or min(geometry.strides + geometry.dilations) < 1
        or min(geometry.pads or (0,)) < 0
    ):
        raise ValueError(
            f"strides {geometry.strides}, dilations {geometry.dilations} and pads {geometry.pads} do not fit "
            f"{rank} spatial dimensions"
        )
    return geometry


def _convolve(
    context: OpKernelContext,
    x: Tensor,
    x_zero: Tensor | None,
    weights: _Filter,
    geometry: _Geometry,
    bias: Tensor | None,
) -> Tensor:
    """The exact integer convolution of ``x`` (N, C, *sizes) minus its zero point, plus ``bias`` (M), as floats."""
    kernel_shape = weights.values.shape[2:]
    channels, group = x.shape[1] if x.ndim > 1 else 0, weights.group
    if x.ndim != weights.values.ndim or channels != weights.values.shape[1] * group:
        raise ValueError(f"weights of shape {weights.values.shape} in {group} groups do not fit x of shape {x.shape}")
    bound = largest_centred(x, x_zero) * weights.largest_sum
    bound += float(np.abs(bias.astype(np.float64)).max(initial=0)) if bias is not None else 0
    dtype = np.float32 if bound < _FLOAT32_EXACT else np.float64
    extents = tuple((k - 1) * d + 1 for k, d in zip(kernel_shape, geometry.dilations, strict=True))
    pads = geometry.resolve_pads(x.shape[2:], extents)
    padded_sizes = tuple(size + before + after for size, (before, after) in zip(x.shape[2:], pads, strict=True))
    if any(size < extent for size, extent in zip(padded_sizes, extents, strict=True)):
        raise ValueError(f"a kernel that spans {extents} does not fit in a padded input of {padded_sizes}")
    spots = tuple(
        (size - extent) // stride + 1
        for size, extent, stride in zip(padded_sizes, extents, geometry.strides, strict=True)
    )
    size = math.prod(spots)
    context.check_allocation((channels * math.prod(kernel_shape) + weights.values.shape[0] * x.shape[0]) * size * 8)
    filters = weights.values.reshape(group, weights.values.shape[0] // group, -1).astype(dtype)
    result = np.empty((x.shape[0], group, filters.shape[1], size), dtype)
    for image, target in zip(x, result, strict=True):
        context.check_cancelled()
        columns = _columns(centred(image, x_zero).astype(dtype, copy=False), pads, extents, geometry)
        np.matmul(filters, columns.reshape(group, -1, size), out=target)
    result = result.reshape(x.shape[0], -1, *spots)
    if bias is not None:
        result += bias.astype(dtype).reshape(-1, *(1,) * len(spots))
    return result


def _columns(image: Tensor, pads: list[tuple[int, int]], extents: tuple[int, ...], geometry: _Geometry) -> Tensor:
    """Every window of one image (C, *sizes) as (C, *kernel, *spots)."""
    padded = np.pad(image, [(0, 0), *pads]) if any(map(any, pads)) else image
    rank = len(extents)
    windows = np.lib.stride_tricks.sliding_window_view(padded, extents, axis=tuple(range(1, rank + 1)))
    strides = tuple(slice(None, None, step) for step in geometry.strides)
    dilations = tuple(slice(None, None, step) for step in geometry.dilations)
    windows = windows[(slice(None), *strides, *dilations)]
    return np.ascontiguousarray(windows.transpose(0, *range(rank + 1, 2 * rank + 1), *range(1, rank + 1)))


@kernel("ConvInteger", since=(10,), types={"T1": BYTES, "T2": BYTES})
def conv_integer(info: OpKernelInfo) -> Compute:
    group = int(info.attribute("group", 1))

    def compute(
        context: OpKernelContext, x: Tensor, w: Tensor, x_zero: Tensor | None = None, w_zero: Tensor | None = None
    ) -> Tensor:
        x_point = None if x_zero is None else x_zero.reshape(())
        geometry = _geometry(info, w.ndim - 2)
        product = as_int32(_convolve(context, x, x_point, _filter(w, w_zero, group), geometry, None))
        out = context.output(0, product.shape, product.dtype)
        np.copyto(out, product)
        return out

    return compute


@kernel("QLinearConv", since=(10,), types={"T1": BYTES, "T2": BYTES, "T3": BYTES})
@kernel("QLinearConv", since=(1,), domain="com.microsoft", types={"T1": BYTES, "T2": BYTES, "T3": BYTES})
def qlinear_conv(info: OpKernelInfo) -> Compute:
    group = int(info.attribute("group", 1))
    channels_last = bool(info.attribute("channels_last", 0))
    constant_w, constant_zero = info.constant_input(3), info.constant_input(5)
    prepared = (
        _filter(constant_w, constant_zero, group) if constant_w is not None and constant_zero is not None else None
    )

    def compute(
        context: OpKernelContext,
        x: Tensor,
        x_scale: Tensor,
        x_zero: Tensor,
        w: Tensor,
        w_scale: Tensor,
        w_zero: Tensor,
        y_scale: Tensor,
        y_zero: Tensor,
        bias: Tensor | None = None,
    ) -> Tensor:
        if channels_last:
            x = np.moveaxis(x, -1, 1)
        weights = prepared or _filter(w, w_zero, group)
        product = _convolve(context, x, x_zero.reshape(()), weights, _geometry(info, w.ndim - 2), bias)
        factor = x_scale.reshape(()) * w_scale / y_scale.reshape(())
        if factor.size > 1:
            factor = factor.reshape(-1, *(1,) * (w.ndim - 2))
        scaled = product.astype(np.float32, copy=False) * factor.astype(np.float32)
        if channels_last:
            scaled = np.ascontiguousarray(np.moveaxis(scaled, 1, -1))
        out = context.output(0, scaled.shape, y_zero.dtype)
        round_into(out, scaled, y_zero.reshape(()))
        return out

    return compute
