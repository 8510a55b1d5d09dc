"""Exact products of small-integer matrices on the floating-point BLAS.

numpy multiplies integer matrices without BLAS, dozens of times slower. A float32 sum of integers is
exact as long as no partial sum can reach 2**24, and no partial sum exceeds Σ|a·b|, in whatever
order BLAS adds. If the bound holds, one float32 product is enough; otherwise K is cut into pieces
for which it holds, and the pieces are added in float64 (exact to 2**53).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ortpkg.foundations.isolation.polling import poll_run
from ortpkg.runtime.kernels.axes import broadcast_shape, element_count
from ortpkg.runtime.kernels.blas_threads import matmul
from ortpkg.runtime.kernels.linear_quantization import integer_range
from ortpkg.runtime.kernels.matrix_product import product_in_blocks, stacked_product
from ortpkg.runtime.kernels.op_kernel import Tensor

_FLOAT32_EXACT = 1 << 24
_LEAST_PIECE = 64
#: Bytes of an element on either side in float32, centred or as a magnitude; and of a sum, with a
#: piece's in float64 and the result.
_LEFT_NBYTES, _RIGHT_NBYTES, _SUM_NBYTES = 8, 12, 20


@dataclass(frozen=True, slots=True)
class IntegerMatrix:
    """Right-hand side of a product, laid out once.

    Attributes:
        values: integers as float32, minus the zero point, (..., K, N).
        largest: bound on the magnitude of each element.
        largest_column: bound on each column's sum of magnitudes.
    """

    values: Tensor
    largest: float
    largest_column: float


def centred(x: Tensor, zero_point: Tensor | None) -> Tensor:
    """Return ``x`` minus its zero point as float32; exact for 8- and 16-bit integers."""
    _check_zero_points(x, zero_point)
    values = x.astype(np.float32)
    if zero_point is not None and np.any(zero_point):
        into = values if values.ndim and zero_point.size == 1 else None
        values = np.asarray(np.subtract(values, zero_point.astype(np.float32), out=into))
    return values


def _check_zero_points(x: Tensor, zero_point: Tensor | None) -> None:
    if zero_point is not None and broadcast_shape(x.shape, zero_point.shape) != x.shape:
        raise ValueError(
            f"zero points of shape {zero_point.shape} do not fit a tensor of shape {x.shape}"
        )


def integer_product_nbytes(a: Tensor, b: Tensor | None, shape: tuple[int, ...]) -> int:
    """Return the most bytes that an exact product of ``shape`` takes besides its output.

    ``b`` is None if it is laid out already.
    """
    of_b = 0 if b is None else _RIGHT_NBYTES * b.size
    return _LEFT_NBYTES * a.size + of_b + _SUM_NBYTES * element_count(shape)


def largest_centred(x: Tensor, zero_point: Tensor | None) -> float:
    """Return a bound on the magnitudes in :func:`centred`, from types and zero points alone."""
    limits = integer_range(x.dtype)
    assert limits is not None
    points = (
        [0]
        if zero_point is None or not zero_point.size
        else [int(zero_point.min()), int(zero_point.max())]
    )
    return float(max(abs(limit - point) for limit in limits for point in points))


def integer_matrix(b: Tensor, zero_point: Tensor | None) -> IntegerMatrix:
    """Lay out a right-hand side.

    ``zero_point`` is one number, or one per column (or broadcasts with ``b``).
    """
    values = centred(b, zero_point)
    return IntegerMatrix(values, *bounds_of(values))


def bounds_of(values: Tensor) -> tuple[float, float]:
    """Return the largest magnitude of a right-hand side, and the largest of its columns' sums."""
    magnitudes = np.abs(values)
    if not magnitudes.size:
        return 0.0, 0.0
    columns = (
        magnitudes.sum(axis=-2, dtype=np.float64)
        if values.ndim > 1
        else magnitudes.sum(dtype=np.float64)
    )
    return float(magnitudes.max()), float(np.max(columns))


def exact_matmul(a: Tensor, a_largest: float, b: IntegerMatrix, *, extra: float = 0.0) -> Tensor:
    """Return ``a @ b`` exactly: in float32 if that can hold it, else in float64.

    Args:
        a: integers as float32, none larger in magnitude than ``a_largest``.
        a_largest: that bound.
        b: the right-hand side.
        extra: magnitude of what the caller will add to the result in its type.
    """
    if a_largest * b.largest_column + extra < _FLOAT32_EXACT:
        return _product(a, b.values)
    piece = int((_FLOAT32_EXACT - 1) // max(a_largest * b.largest, 1.0))
    depth = a.shape[-1]
    if piece < _LEAST_PIECE or b.values.ndim < 2:  # 16-bit integers: float64 holds them directly
        return _product(a.astype(np.float64), b.values.astype(np.float64))
    total = _product(a[..., :piece], b.values[..., :piece, :]).astype(np.float64)
    for start in range(piece, depth, piece):
        poll_run()
        total += _product(a[..., start : start + piece], b.values[..., start : start + piece, :])
    return np.asarray(total)


def _product(a: Tensor, b: Tensor) -> Tensor:
    if min(a.ndim, b.ndim) < 2:
        return np.asarray(matmul(a, b))
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    out = np.empty((*batch, a.shape[-2], b.shape[-1]), np.result_type(a, b))
    product_in_blocks(a, b, out)
    return out


def scaled_matmul(
    a: Tensor,
    b: IntegerMatrix,
    out: Tensor,
    factor: Tensor,
    bias: Tensor | None = None,
    extra: Tensor | None = None,
) -> None:
    """Compute ``out = (a @ b + extra) · factor + bias`` in float32, for products that are scaled.

    If a sum exceeds 2**24 its error is parts in 2**24, as for a 32-bit integer that is converted to
    be scaled.

    Args:
        a: integers as float32, (..., K).
        b: the right-hand side.
        out: float32, of the product's shape, C-contiguous.
        factor, bias, extra: broadcast with the product; None for no bias, nothing extra.
    """
    stacked_product(a, b.values, out)
    if extra is not None:
        np.add(out, extra, out=out)
    np.multiply(out, factor, out=out)
    if bias is not None:
        np.add(out, bias, out=out)


def as_int32(x: Tensor) -> Tensor:
    """Return exact integers in a float array as int32.

    Beyond 32 bits they wrap around, as integer accumulators do.
    """
    if x.dtype == np.float32:
        return x.astype(np.int32)
    return x.astype(np.int64).astype(np.int32)
