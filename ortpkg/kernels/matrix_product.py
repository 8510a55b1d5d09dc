"""Products of matrices on numpy's BLAS, on the threads that the library has.

What was measured (OpenBLAS on AVX-512, two cores): the library's own threads share a product better than threads of
ours, each with a part, do: they wait awake, and never for the interpreter's lock. A matrix that lies transposed (one
row per output feature) packs slowly from the right; a few dozen rows then multiply faster feature-major, as
``b.T @ a.T``.
"""

from __future__ import annotations

import numpy as np

from ortpkg.kernels.op_kernel import Tensor
from ortpkg.kernels.scratch import Slot, take_scratch

#: Up to so many multiplications OpenBLAS does not pack.
_MOST_UNPACKED_PRODUCTS = 1_000_000
#: Up to so many rows feature-major pays although its result must be transposed.
MOST_FEATURE_MAJOR_ROWS = 64
_FLOAT32 = np.dtype(np.float32)


def matrix_product(a: Tensor, b: Tensor, out: Tensor) -> None:
    """``out = a @ b`` for two matrices of one type."""
    rows, depth = a.shape
    if (
        1 < rows <= MOST_FEATURE_MAJOR_ROWS
        and b.dtype == _FLOAT32
        and b.strides[0] == b.itemsize
        and rows * depth * b.shape[1] > _MOST_UNPACKED_PRODUCTS
    ):
        left, product = take_scratch(Slot.TASK, ((depth, rows), b.dtype), ((b.shape[1], rows), b.dtype))
        np.copyto(left, a.T)
        np.matmul(b.T, left, out=product)
        np.copyto(out, product.T)
        return
    np.matmul(a, b, out=out)


def stacked_product(a: Tensor, b: Tensor, out: Tensor) -> None:
    """``out = a @ b`` by numpy's rules for stacks and vectors; rows times one matrix are a single product."""
    if a.ndim == 2 and b.ndim == 2:
        matrix_product(a, b, out)
    elif b.ndim == 2 and a.ndim > 2 and a.flags.c_contiguous and out.flags.c_contiguous and a.size:
        matrix_product(a.reshape(-1, a.shape[-1]), b, out.reshape(-1, b.shape[1]))
    else:
        np.matmul(a, b, out=out)
