"""ConvInteger and QLinearConv: convolutions of 8-bit integers by the float kernels.

A float32 sum of integers is exact while no partial sum reaches 2**24. ConvInteger, whose result is
the sum, uses float64 if that bound may be exceeded. QLinearConv rounds the sum to 8 bits after a
multiplication in float32: beyond the bound its sums have errors of parts in 2**24, as onnxruntime's
product has, and it stays in float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ortpkg.runtime.kernels.axes import element_count
from ortpkg.runtime.kernels.convolution import convolution_nbytes, convolve
from ortpkg.runtime.kernels.integer_gemm import as_int32, centred, largest_centred
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.linear_quantization import round_into
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor
from ortpkg.runtime.kernels.quantization import BYTES
from ortpkg.runtime.kernels.sliding_windows import SlidingWindows, WindowAttributes

_FLOAT32_EXACT = 1 << 24
_FLOAT32 = np.dtype(np.float32)
#: Bytes of a weight minus its zero point in float32, with its magnitude or as float64.
_WEIGHT_NBYTES = 12


def _filter_values(w: Tensor, zero_point: Tensor | None, group: int) -> Tensor:
    """Return weights (M, C/group, *kernel) minus their zero points, as float32 integers."""
    if w.ndim < 3 or group < 1 or w.shape[0] % group:
        raise ValueError(f"weights of shape {w.shape} do not make {group} groups of a convolution")
    if zero_point is not None:
        zero_point = zero_point.reshape(-1, *(1,) * (w.ndim - 1))
    return centred(w, zero_point)


@dataclass(frozen=True, slots=True)
class _Weights:
    """Weights of one node; ``prepared`` if they and their zero point are constant."""

    group: int
    attributes: WindowAttributes
    prepared: Tensor | None

    @classmethod
    def of(cls, info: OpKernelInfo, slot: int, zero_point_slot: int) -> _Weights:
        """Return the node's weights, prepared once if they and their zero points are constant."""
        group, attributes = int(info.attribute("group", 1)), WindowAttributes.of(info)
        w, zero_point = info.constant_input(slot), info.constant_input(zero_point_slot)
        has_zero_point = len(info.node.inputs) > zero_point_slot and bool(
            info.node.inputs[zero_point_slot]
        )
        prepared = None
        if w is not None and (zero_point is not None or not has_zero_point):
            prepared = info.prepacked("filter", lambda: _filter_values(w, zero_point, group))
        return cls(group, attributes, prepared)

    def values(self, w: Tensor, zero_point: Tensor | None) -> Tensor:
        """Return weights minus their zero points as float32: the prepared ones if possible."""
        return _filter_values(w, zero_point, self.group) if self.prepared is None else self.prepared

    def windows(self, x: Tensor, w: Tensor) -> SlidingWindows:
        """Return the windows of a run.

        Raises:
            ValueError: input, weights and attributes do not fit.
        """
        if x.ndim != w.ndim or x.shape[1] != w.shape[1] * self.group:
            raise ValueError(
                f"weights of shape {w.shape} in {self.group} groups do not fit x of shape {x.shape}"
            )
        windows = self.attributes.windows(x.shape[2:], w.shape[2:])
        if windows.kernel != w.shape[2:]:
            raise ValueError(f"kernel_shape {windows.kernel} is not that of the weights, {w.shape}")
        return windows


def _check_scratch(
    context: OpKernelContext, x: Tensor, w: Tensor, windows: SlidingWindows, dtype: np.dtype[Any]
) -> None:
    """Check the memory of centred weights, padded images, windows, and sums in two types."""
    sums = x.shape[0] * w.shape[0] * element_count(windows.output)
    context.check_allocation(
        _WEIGHT_NBYTES * w.size
        + convolution_nbytes(x.shape, w.shape, windows, dtype.itemsize)
        + sums * 2 * dtype.itemsize
    )


@kernel("ConvInteger", since=(10,), types={"T1": BYTES, "T2": BYTES})
def conv_integer(info: OpKernelInfo) -> Compute:
    weights = _Weights.of(info, 1, 3)

    def compute(
        context: OpKernelContext,
        x: Tensor,
        w: Tensor,
        x_zero: Tensor | None = None,
        w_zero: Tensor | None = None,
    ) -> Tensor:
        windows = weights.windows(x, w)
        context.check_allocation(_WEIGHT_NBYTES * w.size)
        values = weights.values(w, w_zero)
        sums = np.abs(values).reshape(w.shape[0], -1).sum(axis=1, dtype=np.float64)
        is_exact = largest_centred(x, x_zero) * float(sums.max(initial=0)) < _FLOAT32_EXACT
        dtype = _FLOAT32 if is_exact else np.dtype(np.float64)
        out = context.output(0, (x.shape[0], w.shape[0], *windows.output), np.dtype(np.int32))
        _check_scratch(context, x, w, windows, dtype)
        product = np.empty(out.shape, dtype)
        zero_point = 0.0 if x_zero is None else float(x_zero.reshape(()))
        values = values.astype(dtype, copy=False)
        convolve(x, values, weights.group, windows, product, zero_point)
        np.copyto(out, as_int32(product))
        return out

    return compute


@kernel("QLinearConv", since=(10,), types={"T1": BYTES, "T2": BYTES, "T3": BYTES})
@kernel(
    "QLinearConv", since=(1,), domain="com.microsoft", types={"T1": BYTES, "T2": BYTES, "T3": BYTES}
)
def qlinear_conv(info: OpKernelInfo) -> Compute:
    channels_last = bool(info.attribute("channels_last", 0))
    weights = _Weights.of(info, 3, 5)

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
        windows = weights.windows(x, w)
        _check_scratch(context, x, w, windows, _FLOAT32)
        values = weights.values(w, w_zero)
        shape = (x.shape[0], w.shape[0], *windows.output)
        if w_scale.size not in (1, w.shape[0]):
            raise ValueError(
                f"{w_scale.size} scales of weights do not fit {w.shape[0]} output channels"
            )
        factor = (x_scale.reshape(()) * w_scale / y_scale.reshape(())).astype(np.float32)
        factor = factor.reshape(-1, *(1,) * (x.ndim - 2))
        out = context.output(
            0, (shape[0], *shape[2:], shape[1]) if channels_last else shape, y_zero.dtype
        )
        sums = np.empty(shape, np.float32)
        convolve(x, values, weights.group, windows, sums, float(x_zero.reshape(())))
        if bias is not None:
            sums += bias.astype(np.float32).reshape(-1, *(1,) * (x.ndim - 2))
        sums *= factor
        round_into(np.moveaxis(out, -1, 1) if channels_last else out, sums, y_zero.reshape(()))
        return out

    return compute
