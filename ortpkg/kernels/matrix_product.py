"""Products of matrices on numpy's BLAS, on the threads that the library has.

What was measured (OpenBLAS on AVX-512, two cores): the library's own threads share a product better
than threads of ours, each with a part, do: they wait awake, and never for the interpreter's lock. A
matrix that lies transposed (one row per output feature) packs slowly from the right; a few dozen
rows then multiply faster feature-major, as ``b.T @ a.T``.
"""

from __future__ import annotations

import numpy as np

from ortpkg.kernels.axes import grid
from ortpkg.kernels.blas_threads import matmul
from ortpkg.kernels.element_types import compute_dtype
from ortpkg.kernels.op_kernel import Tensor
from ortpkg.kernels.polling import poll_run
from ortpkg.kernels.scratch import Slot, take_scratch

#: Up to so many multiplications OpenBLAS does not pack.
_MOST_UNPACKED_PRODUCTS = 1_000_000
#: Up to so many rows feature-major pays although its result must be transposed.
MOST_FEATURE_MAJOR_ROWS = 64
_FLOAT32 = np.dtype(np.float32)
#: Multiplications that BLAS, or numpy's own loops over integers, do in a fraction of a second.
_MOST_PRODUCTS_AT_ONCE = 1 << 33
_MOST_PRODUCTS_WITHOUT_BLAS = 1 << 27


def _is_feature_major(a: Tensor, b: Tensor) -> bool:
    """Return True for a few dozen rows and a matrix, to be float32, that lies transposed."""
    depth = a.shape[-1]
    rows = a.size // max(depth, 1)
    return (
        1 < rows <= MOST_FEATURE_MAJOR_ROWS
        and compute_dtype(b.dtype) == _FLOAT32
        and b.strides[0] == b.itemsize
        and rows * depth * b.shape[1] > _MOST_UNPACKED_PRODUCTS
    )


def product_nbytes(a: Tensor, b: Tensor) -> int:
    """Return the bytes that :func:`matrix_product` takes beside its result.

    ``a`` and ``b`` may be narrow floats that are widened before the product.
    """
    if b.ndim != 2 or not _is_feature_major(a, b):
        return 0
    rows = a.size // int(a.shape[-1])
    return (a.size + rows * int(b.shape[1])) * _FLOAT32.itemsize


def matrix_product(a: Tensor, b: Tensor, out: Tensor) -> None:
    """``out = a @ b`` for two matrices of one type."""
    rows, depth = a.shape
    if _is_feature_major(a, b):
        left, product = take_scratch(
            Slot.TASK, ((depth, rows), b.dtype), ((b.shape[1], rows), b.dtype)
        )
        np.copyto(left, a.T)
        matmul(b.T, left, out=product)
        np.copyto(out, product.T)
        return
    product_in_blocks(a, b, out)


def stacked_product(a: Tensor, b: Tensor, out: Tensor) -> None:
    """``out = a @ b`` by numpy's rules for stacks and vectors.

    Rows times one matrix are a single product.
    """
    if a.ndim == 2 and b.ndim == 2:
        matrix_product(a, b, out)
    elif (
        b.ndim == 2
        and a.ndim > 2
        and a.flags.c_contiguous
        and out.flags.c_contiguous
        and a.size
        and b.size
    ):
        matrix_product(a.reshape(-1, a.shape[-1]), b, out.reshape(-1, b.shape[1]))
    else:
        product_in_blocks(a, b, out)


def product_in_blocks(a: Tensor, b: Tensor, out: Tensor) -> None:
    """``out = a @ b``; a large product in parts, between which the run may end."""
    if not out.size:  # of however many matrices without elements
        return
    most = _MOST_PRODUCTS_AT_ONCE if a.dtype.kind in "fc" else _MOST_PRODUCTS_WITHOUT_BLAS
    if out.size * a.shape[-1] <= most or min(a.ndim, b.ndim) < 2:
        matmul(a, b, out=out)
    elif out.ndim > 2:
        batch = out.shape[:-2]
        stacks = (
            np.broadcast_to(a, (*batch, *a.shape[-2:])),
            np.broadcast_to(b, (*batch, *b.shape[-2:])),
        )
        for index in grid(*map(range, batch)):
            poll_run()
            product_in_blocks(stacks[0][index], stacks[1][index], out[index])
    else:
        step = max(most // max(b.size, 1), 1)
        for start in range(0, len(a), step):
            poll_run()
            matmul(a[start : start + step], b, out=out[start : start + step])
