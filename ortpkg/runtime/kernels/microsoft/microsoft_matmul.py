"""com.microsoft: products with dynamic 8-bit weights, or weights of 2 to 8 bits in blocks.

Source: ONNX Runtime, docs/ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ortpkg.runtime.kernels.axes import broadcast_shape, element_count
from ortpkg.runtime.kernels.element_types import widened_nbytes
from ortpkg.runtime.kernels.gemm import matmul_shape
from ortpkg.runtime.kernels.integer_gemm import (
    IntegerMatrix,
    bounds_of,
    centred,
    integer_matrix,
    integer_product_nbytes,
    scaled_matmul,
)
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.linear_quantization import round_into
from ortpkg.runtime.kernels.matrix_product import product_in_blocks
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor
from ortpkg.runtime.kernels.packed_bits import bits_apart
from ortpkg.runtime.kernels.quantization import (
    BYTES,
    check_parameters,
    dynamic_parameters,
    per_column,
    per_row,
    prepared_matrix,
    quantized_and_centred,
)

_DOMAIN = "com.microsoft"
#: Bytes of a weight while it is unpacked: its code, the same in float32, its zero point and scale.
_UNPACKED_NBYTES = 20


@kernel("MatMulIntegerToFloat", since=(1,), domain=_DOMAIN, types={"T1": BYTES, "T2": BYTES})
def matmul_integer_to_float(info: OpKernelInfo) -> Compute:
    prepared = prepared_matrix(info, 1, 5)

    def compute(
        context: OpKernelContext,
        a: Tensor,
        b: Tensor,
        a_scale: Tensor,
        b_scale: Tensor,
        a_zero: Tensor | None = None,
        b_zero: Tensor | None = None,
        bias: Tensor | None = None,
    ) -> Tensor:
        shape = matmul_shape(a.shape, b.shape)
        out = context.output(0, shape, np.dtype(np.float32))
        left, right = per_row(a_scale), per_column(b_scale)
        assert left is not None
        assert right is not None
        check_parameters(shape, left, right)
        factor_nbytes = element_count(broadcast_shape(left.shape, right.shape)) * out.itemsize
        context.check_allocation(
            integer_product_nbytes(a, None if prepared else b, ()) + factor_nbytes
        )
        matrix = prepared or integer_matrix(b, per_column(b_zero))
        scaled_matmul(centred(a, per_row(a_zero)), matrix, out, np.asarray(left * right), bias)
        return out

    return compute


@kernel("DynamicQuantizeMatMul", since=(1,), domain=_DOMAIN, types={"T2": BYTES})
def dynamic_quantize_matmul(info: OpKernelInfo) -> Compute:
    """Product; A is first quantized to uint8 over its range, as by DynamicQuantizeLinear."""
    prepared = prepared_matrix(info, 1, 3)

    def compute(
        context: OpKernelContext,
        a: Tensor,
        b: Tensor,
        b_scale: Tensor,
        b_zero: Tensor | None = None,
        bias: Tensor | None = None,
    ) -> Tensor:
        shape = matmul_shape(a.shape, b.shape)
        out = context.output(0, shape, np.dtype(np.float32))
        context.check_allocation(integer_product_nbytes(a, None if prepared else b, ()))
        matrix = prepared or integer_matrix(b, per_column(b_zero))
        a_scale, a_zero = dynamic_parameters(a)
        right = per_column(b_scale)
        assert right is not None
        check_parameters(shape, right)
        scaled_matmul(
            quantized_and_centred(a, a_scale, a_zero),
            matrix,
            out,
            np.asarray(a_scale * right),
            bias,
        )
        return out

    return compute


@kernel("QGemm", since=(1,), domain=_DOMAIN, types={"TA": BYTES, "TB": BYTES})
def qgemm(info: OpKernelInfo) -> Compute:
    """alpha · A' · B' + C, quantized if an output scale is given, else float32.

    C has the scale of the product.
    """
    trans_a, trans_b = bool(info.attribute("transA", 0)), bool(info.attribute("transB", 0))
    alpha = np.float32(info.attribute("alpha", 1.0))
    prepared = None if trans_b else prepared_matrix(info, 3, 5)
    constant, constant_zero = info.constant_input(3), info.constant_input(5)
    if trans_b and constant is not None and constant_zero is not None:
        values = info.prepacked(
            "matrix", lambda: np.ascontiguousarray(centred(constant.T, per_column(constant_zero)))
        )
        prepared = IntegerMatrix(values, *bounds_of(values))

    def compute(
        context: OpKernelContext,
        a: Tensor,
        a_scale: Tensor,
        a_zero: Tensor,
        b: Tensor,
        b_scale: Tensor,
        b_zero: Tensor,
        c: Tensor | None = None,
        y_scale: Tensor | None = None,
        y_zero: Tensor | None = None,
    ) -> Tensor:
        shape = matmul_shape(a.T.shape if trans_a else a.shape, b.T.shape if trans_b else b.shape)
        c_nbytes = 0 if c is None else c.size * np.dtype(np.float32).itemsize
        context.check_allocation(
            integer_product_nbytes(a, None if prepared else b, shape) + c_nbytes
        )
        matrix = prepared or integer_matrix(b.T if trans_b else b, per_column(b_zero))
        left = centred(a.T if trans_a else a, a_zero.reshape(()))
        right = per_column(b_scale)
        assert right is not None
        check_parameters(shape, right)
        factor = np.asarray(alpha * a_scale.reshape(()) * right, np.float32)
        extra = None if c is None else c.astype(np.float32)
        if y_scale is None:
            out = context.output(0, shape, np.dtype(np.float32))
            scaled_matmul(left, matrix, out, factor, extra=extra)
            return out
        out = context.output(0, shape, a.dtype if y_zero is None else y_zero.dtype)
        scaled = np.empty(shape, np.float32)
        scaled_matmul(left, matrix, scaled, np.asarray(factor / y_scale.reshape(())), extra=extra)
        round_into(out, scaled, None if y_zero is None else y_zero.reshape(()))
        return out

    return compute


# --- weights packed in few bits -------------------------------------------------------------------


@kernel("MatMulNBits", since=(1,), domain=_DOMAIN)
def matmul_nbits(info: OpKernelInfo) -> Compute:
    """A @ B' with B (N, K) quantized in blocks along K, ``bits`` per weight, packed low bits first.

    Constant weights are unpacked once, at initialization, in float32.
    """
    depth, columns = int(info.attribute("K")), int(info.attribute("N"))
    bits, block_size = int(info.attribute("bits", 4)), int(info.attribute("block_size"))
    if bits not in (2, 4, 8) or block_size < 1 or depth < 1 or columns < 1:
        raise ValueError(
            f"MatMulNBits takes 2, 4 or 8 bits and positive sizes, not bits={bits},"
            f" block_size={block_size}, K={depth}, N={columns}"
        )

    def unpacked(
        b: Tensor, scales: Tensor, zero_points: Tensor | None, groups: Tensor | None
    ) -> Tensor:
        return _unpacked_weights(b, scales, zero_points, groups, (columns, depth), bits, block_size)

    prepared = _prepared_weights(info, unpacked)

    def compute(
        context: OpKernelContext,
        a: Tensor,
        b: Tensor,
        scales: Tensor,
        zero_points: Tensor | None = None,
        groups: Tensor | None = None,
        bias: Tensor | None = None,
    ) -> Tensor:
        out = context.output(0, (*a.shape[:-1], columns), a.dtype)
        if not out.size:
            return out
        own_nbytes = 0 if prepared is not None else columns * depth * _UNPACKED_NBYTES
        sums_nbytes = out.size * np.dtype(np.float32).itemsize
        context.check_allocation(own_nbytes + sums_nbytes + widened_nbytes(a))
        weights = unpacked(b, scales, zero_points, groups) if prepared is None else prepared
        product = np.empty(out.shape, np.float32)
        product_in_blocks(a.astype(np.float32, copy=False), weights.T, product)
        if bias is not None:
            product += bias.astype(np.float32)
        np.copyto(out, product, casting="unsafe")
        return out

    return compute


def _prepared_weights(info: OpKernelInfo, unpacked: Callable[..., Tensor]) -> Tensor | None:
    """Unpack the weights once; return None unless they and their parameters are constant."""
    weights, scales, points, groups = (info.constant_input(slot) for slot in (1, 2, 3, 4))
    parts = zip(info.node.inputs[1:5], (weights, scales, points, groups), strict=False)
    if weights is None or scales is None or any(name and part is None for name, part in parts):
        return None
    return info.prepacked("weights", lambda: unpacked(weights, scales, points, groups))


def _unpacked_weights(
    b: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    groups: Tensor | None,
    shape: tuple[int, int],
    bits: int,
    block_size: int,
) -> Tensor:
    """Return the weights (N, K) in float32.

    ``groups`` (g_idx) is the number of the block whose scale each index of K takes.
    """
    columns, depth = shape
    blocks = -(-depth // block_size)
    blob = -(-block_size * bits // 8)
    if b.size != columns * blocks * blob or scales.size != columns * blocks:
        raise ValueError(
            f"weights of K={depth}, N={columns} in blocks of {block_size} have"
            f" {columns * blocks * blob} bytes and {columns * blocks} scales, not {b.size} and"
            f" {scales.size}"
        )
    codes = bits_apart(b.reshape(columns, blocks, blob), bits)[..., :block_size].reshape(
        columns, -1
    )[:, :depth]
    block_of = np.arange(depth) // block_size if groups is None else groups.astype(np.intp)
    if groups is not None and (
        groups.shape != (depth,) or block_of.min() < 0 or block_of.max() >= blocks
    ):
        raise ValueError(f"g_idx names, for each of {depth} rows, one of {blocks} blocks")
    scale = scales.reshape(columns, blocks).astype(np.float32)[:, block_of]
    return (
        codes.astype(np.float32) - _zero_points(zero_points, columns, blocks, bits)[:, block_of]
    ) * scale


def _zero_points(zero_points: Tensor | None, columns: int, blocks: int, bits: int) -> Tensor:
    """Return zero points (N, blocks) in float32, unpacked; half the range if left out."""
    if zero_points is None:
        return np.full((columns, blocks), 1 << (bits - 1), np.float32)
    if zero_points.dtype != np.uint8:
        return zero_points.reshape(columns, blocks).astype(np.float32)
    packed = -(-blocks * bits // 8)
    return bits_apart(zero_points.reshape(columns, packed), bits)[:, :blocks].astype(np.float32)
