"""Products of matrices on numpy's BLAS, cut so that several threads share them and few rows do not pay for many.

What was measured (OpenBLAS on AVX-512): below 10⁶ multiplications a product runs without packing its factors. With
few rows on the left, packing the matrix on the right costs more than multiplying it, so it is cut into panels that
stay below. A matrix that lies transposed (one row per output feature) packs slowly from the right; a few dozen rows
then multiply faster feature-major, as ``b.T @ a.T``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ortpkg.kernels.op_kernel import Tensor
from ortpkg.kernels.pieces import LEAST_PRODUCTS, over_ranges, piece_count

#: Up to so many multiplications OpenBLAS does not pack.
_MOST_UNPACKED_FLOP = 1_000_000
_LEAST_PANEL = 32
#: Up to so many rows feature-major pays although its result must be transposed.
MOST_FEATURE_MAJOR_ROWS = 64
#: Columns of one vector register; pieces begin at multiples of it.
_COLUMNS_PER_REGISTER = 16
_ROWS_PER_PIECE = 8


#: finish(part of the product, its rows, its columns): what follows a product while a part of it is in cache.
Finish = Callable[[Tensor, slice, slice], None]


def matrix_product(a: Tensor, b: Tensor, out: Tensor, finish: Finish | None = None) -> None:
    """``out = a @ b`` for two matrices of one type, then ``finish`` on each part, on the threads of the node."""
    rows, depth = a.shape
    columns = b.shape[1]
    flop = rows * depth * columns
    pieces = piece_count(flop, LEAST_PRODUCTS)

    def by_columns(start: int, stop: int) -> None:
        product(a, b[:, start:stop], out[:, start:stop])
        if finish is not None:
            finish(out[:, start:stop], slice(0, rows), slice(start, stop))

    def by_rows(start: int, stop: int) -> None:
        product(a[start:stop], b, out[start:stop])
        if finish is not None:
            finish(out[start:stop], slice(start, stop), slice(0, columns))

    if pieces == 1 or columns >= rows:
        over_ranges(by_columns, columns, pieces, multiple=_COLUMNS_PER_REGISTER)
    else:
        over_ranges(by_rows, rows, pieces, multiple=_ROWS_PER_PIECE)


def product(a: Tensor, b: Tensor, out: Tensor) -> None:
    """``out = a @ b`` on the calling thread."""
    rows, depth = a.shape
    columns = b.shape[1]
    if 1 < rows <= MOST_FEATURE_MAJOR_ROWS and rows * depth * columns > _MOST_UNPACKED_FLOP:
        panel = _MOST_UNPACKED_FLOP // (rows * depth) // _COLUMNS_PER_REGISTER * _COLUMNS_PER_REGISTER
        is_transposed = b.strides[0] == b.itemsize and b.dtype == np.float32
        if panel >= (_LEAST_PANEL if is_transposed else 4 * _LEAST_PANEL) and b.dtype == np.float32:
            _product_by_panels(a, b, out, min(panel, 4 * _LEAST_PANEL))
            return
        if is_transposed:
            out[...] = np.matmul(b.T, np.ascontiguousarray(a.T)).T
            return
    np.matmul(a, b, out=out)


def _product_by_panels(a: Tensor, b: Tensor, out: Tensor, panel: int) -> None:
    """One call for all panels of ``panel`` columns, one more for the columns that are left."""
    panels = b.shape[1] // panel
    whole = panels * panel
    np.matmul(a, _panels_of(b[:, :whole], panels), out=_panels_of(out[:, :whole], panels))
    if whole < b.shape[1]:
        np.matmul(a, b[:, whole:], out=out[:, whole:])


def _panels_of(x: Tensor, panels: int) -> Tensor:
    """A matrix as a stack of its column panels, a view."""
    rows, columns = x.shape
    width = columns // panels
    row_stride, column_stride = x.strides
    strides = (width * column_stride, row_stride, column_stride)
    return np.lib.stride_tricks.as_strided(x, (panels, rows, width), strides)


def stacked_product(a: Tensor, b: Tensor, out: Tensor) -> None:
    """``out = a @ b`` by numpy's rules for stacks and vectors, on the threads of the node."""
    if a.ndim == 2 and b.ndim == 2:
        matrix_product(a, b, out)
        return
    if b.ndim == 2 and a.ndim > 2 and a.flags.c_contiguous and out.flags.c_contiguous and a.size:
        matrix_product(a.reshape(-1, a.shape[-1]), b, out.reshape(-1, b.shape[1]))
        return
    pieces = piece_count(out.size * a.shape[-1], LEAST_PRODUCTS)
    axis = next((axis for axis, size in enumerate(out.shape[:-2]) if size > 1), None)
    if pieces == 1 or axis is None or a.ndim < 2 or b.ndim < 2:
        np.matmul(a, b, out=out)
        return
    own_axis = out.ndim - axis  # from the end, where the factors' axes line up

    def part(x: Tensor, start: int, stop: int) -> Tensor:
        if x.ndim < own_axis or x.shape[-own_axis] == 1:
            return x
        return x[(slice(None),) * (x.ndim - own_axis) + (slice(start, stop),)]

    def some(start: int, stop: int) -> None:
        np.matmul(part(a, start, stop), part(b, start, stop), out=part(out, start, stop))

    over_ranges(some, out.shape[axis], min(pieces, out.shape[axis]))
