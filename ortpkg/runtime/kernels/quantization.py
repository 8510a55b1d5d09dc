"""Quantized operators of ai.onnx on tensors and matrices.

Convolutions are in :mod:`ortpkg.runtime.kernels.quantized_conv`.
"""

from __future__ import annotations

import numpy as np

from ortpkg.graph.types import ElementType as E
from ortpkg.graph.types import numpy_dtype
from ortpkg.runtime.kernels.axes import broadcast_shape
from ortpkg.runtime.kernels.gemm import matmul_shape
from ortpkg.runtime.kernels.integer_gemm import (
    IntegerMatrix,
    as_int32,
    bounds_of,
    centred,
    exact_matmul,
    integer_matrix,
    integer_product_nbytes,
    largest_centred,
    scaled_matmul,
)
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.linear_quantization import (
    dequantization_nbytes,
    dequantize_into,
    quantization_nbytes,
    quantize_into,
    round_into,
    spread,
    spread_nbytes,
)
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor

BYTES = frozenset({E.UINT8, E.INT8})
_LINEAR_VERSIONS = (10, 13, 19, 21, 23, 24, 25, 28)


@kernel("QuantizeLinear", since=_LINEAR_VERSIONS)
@kernel("QuantizeLinear", since=(1,), domain="com.microsoft")
def quantize_linear(info: OpKernelInfo) -> Compute:
    """Quantization per tensor, per axis or in blocks, to 2 to 16 bit integers, float8 or float4."""
    axis = int(info.attribute("axis", 1))
    block_size = int(info.attribute("block_size", 0))
    saturate = bool(info.attribute("saturate", 1))
    declared = int(info.attribute("output_dtype", 0)) or int(E.UINT8)
    precision = int(info.attribute("precision", 0))

    def compute(
        context: OpKernelContext, x: Tensor, scale: Tensor, zero_point: Tensor | None = None
    ) -> Tensor:
        dtype = numpy_dtype(E(declared)) if zero_point is None else zero_point.dtype
        out = context.output(0, x.shape, dtype)
        if precision:
            scale = scale.astype(numpy_dtype(E(precision)))
        context.check_allocation(
            quantization_nbytes(out, x, scale)
            + (spread_nbytes(x.shape, scale, zero_point) if block_size else 0)
        )
        points = None if zero_point is None else spread(zero_point, x.shape, axis, block_size)
        quantize_into(out, x, spread(scale, x.shape, axis, block_size), points, saturate=saturate)
        return out

    return compute


@kernel("DequantizeLinear", since=_LINEAR_VERSIONS)
@kernel("DequantizeLinear", since=(1,), domain="com.microsoft")
def dequantize_linear(info: OpKernelInfo) -> Compute:
    """Inverse of QuantizeLinear, in ``output_dtype`` if set, else in the scale's type."""
    axis = int(info.attribute("axis", 1))
    block_size = int(info.attribute("block_size", 0))
    declared = int(info.attribute("output_dtype", 0))

    def compute(
        context: OpKernelContext, x: Tensor, scale: Tensor, zero_point: Tensor | None = None
    ) -> Tensor:
        if zero_point is not None and zero_point.dtype != x.dtype:
            raise ValueError(
                f"x has type {x.dtype}, but its zero point has type {zero_point.dtype}"
            )
        out = context.output(0, x.shape, numpy_dtype(E(declared)) if declared else scale.dtype)
        context.check_allocation(
            dequantization_nbytes(out, x)
            + (spread_nbytes(x.shape, scale, zero_point) if block_size else 0)
        )
        points = None if zero_point is None else spread(zero_point, x.shape, axis, block_size)
        dequantize_into(out, x, spread(scale, x.shape, axis, block_size), points)
        return out

    return compute


@kernel("DynamicQuantizeLinear", since=(11,))
def dynamic_quantize_linear(_info: OpKernelInfo) -> Compute:
    def compute(context: OpKernelContext, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        scale, zero_point = dynamic_parameters(x)
        out = context.output(0, x.shape, np.dtype(np.uint8))
        context.check_allocation(quantization_nbytes(out, x, scale))
        quantize_into(out, x, scale, zero_point)
        return out, scale, zero_point

    return compute


def dynamic_parameters(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return scale (float32) and zero point (uint8) that cover ``x`` and 0.

    A tensor of zeros has the scale 1.
    """
    largest = np.maximum(np.float32(0), x.max(initial=0))
    least = np.minimum(np.float32(0), x.min(initial=0))
    scale = np.float32((largest - least) / np.float32(255))
    if scale == 0:
        scale = np.float32(1)
    zero_point = np.clip(np.rint(-least / scale), 0, 255).astype(np.uint8)
    return np.asarray(scale), np.asarray(zero_point)


def quantized_and_centred(x: Tensor, scale: Tensor, zero_point: Tensor) -> Tensor:
    """Return ``x``, quantized to uint8, minus its zero point, as float32."""
    point = float(zero_point)
    values = np.rint(x / scale)
    return np.clip(values, np.float32(-point), np.float32(255 - point), out=values)


# --- matrices -------------------------------------------------------------------------------------


def per_row(parameter: Tensor | None) -> Tensor | None:
    """Return a left-hand zero point or scale (one, or one a row) that broadcasts to the matrix."""
    if parameter is None or parameter.size == 1:
        return None if parameter is None else parameter.reshape(())
    return parameter[:, None] if parameter.ndim == 1 else parameter


def per_column(parameter: Tensor | None) -> Tensor | None:
    """Return a right-hand zero point or scale (one, or one per column) that broadcasts."""
    return parameter.reshape(()) if parameter is not None and parameter.size == 1 else parameter


def check_parameters(shape: tuple[int, ...], *parameters: Tensor | None) -> None:
    """Raise ValueError if scales or zero points do not broadcast to a product of ``shape``."""
    shapes = [parameter.shape for parameter in parameters if parameter is not None]
    if broadcast_shape(shape, *shapes) != shape:
        raise ValueError(
            f"scales or zero points of shapes {' and '.join(map(str, shapes))} do not fit a product"
            f" of shape {shape}"
        )


def prepared_matrix(info: OpKernelInfo, slot: int, zero_point_slot: int) -> IntegerMatrix | None:
    """Lay the right-hand side out at initialization, if it and its zero point are constant."""
    b = info.constant_input(slot)
    if b is None:
        return None
    names = info.node.inputs
    has_zero_point = len(names) > zero_point_slot and bool(names[zero_point_slot])
    zero_point = info.constant_input(zero_point_slot) if has_zero_point else None
    if has_zero_point and zero_point is None:
        return None
    values = info.prepacked("matrix", lambda: integer_matrix(b, per_column(zero_point)).values)
    bounds = info.prepacked("bounds", lambda: np.array(bounds_of(values)))
    return IntegerMatrix(values, float(bounds[0]), float(bounds[1]))


def integer_product(a: Tensor, a_zero_point: Tensor | None, b: IntegerMatrix) -> Tensor:
    """Return (a - its zero point) @ b, exact, in float32 or float64."""
    return exact_matmul(centred(a, per_row(a_zero_point)), largest_centred(a, a_zero_point), b)


@kernel("MatMulInteger", since=(10,), types={"T1": BYTES, "T2": BYTES})
def matmul_integer(info: OpKernelInfo) -> Compute:
    prepared = prepared_matrix(info, 1, 3)

    def compute(
        context: OpKernelContext,
        a: Tensor,
        b: Tensor,
        a_zero: Tensor | None = None,
        b_zero: Tensor | None = None,
    ) -> Tensor:
        shape = matmul_shape(a.shape, b.shape)
        out = context.output(0, shape, np.dtype(np.int32))
        context.check_allocation(integer_product_nbytes(a, None if prepared else b, shape))
        matrix = prepared or integer_matrix(b, per_column(b_zero))
        np.copyto(out, as_int32(integer_product(a, a_zero, matrix)))
        return out

    return compute


@kernel("QLinearMatMul", since=(10, 21), types={"T1": BYTES, "T2": BYTES, "T3": BYTES})
def qlinear_matmul(info: OpKernelInfo) -> Compute:
    prepared = prepared_matrix(info, 3, 5)

    def compute(
        context: OpKernelContext,
        a: Tensor,
        a_scale: Tensor,
        a_zero: Tensor,
        b: Tensor,
        b_scale: Tensor,
        b_zero: Tensor,
        y_scale: Tensor,
        y_zero: Tensor,
    ) -> Tensor:
        shape = matmul_shape(a.shape, b.shape)
        context.check_allocation(integer_product_nbytes(a, None if prepared else b, shape))
        matrix = prepared or integer_matrix(b, per_column(b_zero))
        left, right = per_row(a_scale), per_column(b_scale)
        assert left is not None
        assert right is not None
        check_parameters(shape, left, right, y_scale, per_row(y_zero))
        factor = np.asarray(
            left.astype(np.float32) * right.astype(np.float32) / y_scale.astype(np.float32)
        )
        out = context.output(0, shape, y_zero.dtype)
        scaled = np.empty(shape, np.float32)
        scaled_matmul(centred(a, per_row(a_zero)), matrix, scaled, factor)
        round_into(out, scaled, per_row(y_zero))
        return out

    return compute
