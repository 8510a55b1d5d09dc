"""Matrix products: MatMul, Gemm, FusedMatMul, FusedGemm, on numpy's BLAS.

Constant matrices of narrow floats are widened once, at initialization; float32 ones are used where
they lie (BLAS takes either order without a copy). Batches of rows times one matrix are a single
product.
"""

from __future__ import annotations

import numpy as np

from ortpkg.runtime.kernels.activation_table import fused_activation
from ortpkg.runtime.kernels.activations import apply_activation
from ortpkg.runtime.kernels.axes import broadcast_shape
from ortpkg.runtime.kernels.element_types import NUMBERS, widened, widened_nbytes
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.matrix_product import product_in_blocks, stacked_product
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor

MS = "com.microsoft"


def matmul_shape(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a product by numpy's rules (vectors are rows on the left, columns right).

    Raises:
        ValueError: the inner dimensions differ, the batches do not broadcast, or a factor is a
            scalar.
    """
    if not a or not b:
        raise ValueError(f"a scalar has no matrix product (shapes {a} and {b})")
    inner = b[-2] if len(b) > 1 else b[0]
    if a[-1] != inner:
        raise ValueError(f"shapes {a} and {b} do not multiply: {a[-1]} columns meet {inner} rows")
    batch = broadcast_shape(a[:-2], b[:-2])
    return (*batch, *(a[-2:-1] if len(a) > 1 else ()), *(b[-1:] if len(b) > 1 else ()))


def multiply(context: OpKernelContext, a: Tensor, b: Tensor, out: Tensor) -> None:
    """Compute ``out = a @ b`` for factors of rank 1 or more.

    Narrow floats are multiplied in float32 and rounded once.
    """
    context.check_allocation(widened_nbytes(a, b, out))
    a, b = widened(a), widened(b)
    target = out if out.dtype == a.dtype else np.empty(out.shape, a.dtype)
    stacked_product(a, b, target)
    if target is not out:
        np.copyto(out, target, casting="unsafe")


def _widened_constant(info: OpKernelInfo, slot: int) -> Tensor | None:
    """Return a constant input in its compute type; None if the input can be used as it is."""
    value = info.constant_input(slot)
    if value is None or widened(value) is value:
        return None
    return info.prepacked(f"input {slot}", lambda: widened(value))


@kernel("MatMul", since=(1, 9, 13), types={"T": NUMBERS})
def matmul(info: OpKernelInfo) -> Compute:
    prepared = _widened_constant(info, 1)

    def compute(context: OpKernelContext, a: Tensor, b: Tensor) -> Tensor:
        out = context.output(0, matmul_shape(a.shape, b.shape), a.dtype)
        multiply(context, a, b if prepared is None else prepared, out)
        return out

    return compute


def _gemm(info: OpKernelInfo) -> Compute:
    """alpha · A' · B' + beta · C, then the activation if the node names one."""
    alpha, beta = info.attribute("alpha", 1.0), info.attribute("beta", 1.0)
    trans_a, trans_b = bool(info.attribute("transA", 0)), bool(info.attribute("transB", 0))
    prepared = _widened_constant(info, 1)
    activation = fused_activation(info)

    def compute(context: OpKernelContext, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
        if a.ndim != 2 or b.ndim != 2:
            raise ValueError(
                f"Gemm multiplies matrices, but the shapes are {a.shape} and {b.shape}"
            )
        dtype = a.dtype
        b = b if prepared is None else prepared
        a, b = a.T if trans_a else a, b.T if trans_b else b
        out = context.output(0, matmul_shape(a.shape, b.shape), dtype)
        c_nbytes = 0 if c is None or beta in (0, 1) else 2 * c.size * max(c.itemsize, 4)
        context.check_allocation(widened_nbytes(a, b, out) + c_nbytes)
        wide = widened(a)
        result = out if wide.dtype == dtype else np.empty(out.shape, wide.dtype)
        addend = None
        if c is not None and beta != 0:
            if broadcast_shape(c.shape, out.shape) != out.shape:
                raise ValueError(
                    f"C of shape {c.shape} does not broadcast to the product's shape {out.shape}"
                )
            addend = np.broadcast_to(c if beta == 1 else widened(c) * beta, out.shape)
        product_in_blocks(wide, widened(b), result)
        if alpha != 1:
            np.multiply(result, alpha, out=result, casting="unsafe")
        if addend is not None:
            np.add(result, addend, out=result, casting="unsafe")
        if activation is not None:
            apply_activation(activation, result, result)
        if result is not out:
            np.copyto(out, result, casting="unsafe")
        return out

    return compute


@kernel("Gemm", since=(1, 6, 7, 9, 11, 13), types={"T": NUMBERS})
def gemm(info: OpKernelInfo) -> Compute:
    return _gemm(info)


@kernel("FusedGemm", since=(1,), domain=MS, types={"T": NUMBERS})
def fused_gemm(info: OpKernelInfo) -> Compute:
    return _gemm(info)


@kernel("SparseToDenseMatMul", since=(1,), domain=MS, types={"T": NUMBERS})
def sparse_to_dense_matmul(info: OpKernelInfo) -> Compute:
    """alpha · A' · B' of two matrices; the first, a sparse one, is passed with its zeros."""
    alpha = info.attribute("alpha", 1.0)
    trans_a, trans_b = bool(info.attribute("transA", 0)), bool(info.attribute("transB", 0))

    def compute(context: OpKernelContext, a: Tensor, b: Tensor) -> Tensor:
        if a.ndim != 2 or b.ndim != 2:
            raise ValueError(
                f"SparseToDenseMatMul multiplies matrices, but the shapes are {a.shape} and"
                f" {b.shape}"
            )
        a, b = a.T if trans_a else a, b.T if trans_b else b
        out = context.output(0, matmul_shape(a.shape, b.shape), a.dtype)
        multiply(context, a, b, out)
        if alpha != 1 and out.dtype.kind == "f":  # onnxruntime leaves it out of whole numbers
            np.multiply(out, out.dtype.type(alpha), out=out)
        return out

    return compute


@kernel("FusedMatMul", since=(1,), domain=MS, types={"T": NUMBERS})
def fused_matmul(info: OpKernelInfo) -> Compute:
    """alpha · A' · B'; ``transBatchA`` first moves an axis of A behind its batch axes."""
    alpha = info.attribute("alpha", 1.0)
    trans_a, trans_b = bool(info.attribute("transA", 0)), bool(info.attribute("transB", 0))
    batch_a, batch_b = (
        bool(info.attribute("transBatchA", 0)),
        bool(info.attribute("transBatchB", 0)),
    )

    def oriented(x: Tensor, transposed: bool, batch_first: bool) -> Tensor:
        if batch_first and x.ndim > 2:
            x = np.moveaxis(x, 0, -2)
        return np.swapaxes(x, -1, -2) if transposed and x.ndim > 1 else x

    def compute(context: OpKernelContext, a: Tensor, b: Tensor) -> Tensor:
        a, b = oriented(a, trans_a, batch_a), oriented(b, trans_b, batch_b)
        out = context.output(0, matmul_shape(a.shape, b.shape), a.dtype)
        multiply(context, a, b, out)
        if alpha != 1:
            np.multiply(out, out.dtype.type(alpha), out=out)
        return out

    return compute
