"""Products of matrices on numpy's BLAS, on the library's threads.

The library's own threads share a product better than threads of ours with a part each would: they
spin while they wait, and never need the interpreter's lock.
"""

from __future__ import annotations

import numpy as np

from ortpkg.foundations.isolation.polling import poll_run
from ortpkg.runtime.kernels.axes import grid
from ortpkg.runtime.kernels.blas_threads import matmul
from ortpkg.runtime.kernels.op_kernel import Tensor

#: Number of multiplications that BLAS, or numpy's own loops over integers, do in a fraction of a
#: second.
_MOST_PRODUCTS_AT_ONCE = 1 << 33
_MOST_PRODUCTS_WITHOUT_BLAS = 1 << 27


def stacked_product(a: Tensor, b: Tensor, out: Tensor) -> None:
    """Compute ``out = a @ b`` by numpy's rules for stacks and vectors.

    Rows times one matrix are a single product.
    """
    if (
        b.ndim == 2
        and a.ndim > 2
        and a.flags.c_contiguous
        and out.flags.c_contiguous
        and a.size
        and b.size
    ):
        product_in_blocks(a.reshape(-1, a.shape[-1]), b, out.reshape(-1, b.shape[1]))
    else:
        product_in_blocks(a, b, out)


def product_in_blocks(a: Tensor, b: Tensor, out: Tensor) -> None:
    """Compute ``out = a @ b``; a large product in parts, between which the run may end."""
    if not out.size:  # there may be any number of empty matrices
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
