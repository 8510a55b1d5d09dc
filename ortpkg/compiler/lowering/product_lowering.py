"""Lowers operators that are matrix products."""

from __future__ import annotations

from collections.abc import Sequence

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.lowering.elementwise_lowering import as_kind, widened
from ortpkg.compiler.lowering.lowering_registry import MICROSOFT_DOMAIN, lowers
from ortpkg.compiler.lowering.lowering_scope import (
    LoweringScope,
    NotLoweredError,
    attribute,
    number,
)
from ortpkg.compiler.tensor_ir.elements import (
    Call,
    Coordinate,
    Element,
    Function,
    Made,
    Read,
    Tensor,
    along,
    scalar_of,
)
from ortpkg.compiler.tensor_ir.operations import Product
from ortpkg.graph.graph import Node
from ortpkg.graph.shapes.expressions import Size

_FLOATS = frozenset({Scalar.F32, Scalar.F16, Scalar.BF16})
_BYTES = frozenset({Scalar.U8, Scalar.I8})


@lowers("MatMul")
def lower_matmul(scope: LoweringScope, node: Node) -> None:
    """Lower to products broadcast over batches; vectors are matrices of one row or column."""
    make_product(scope, node, scope.tensor(node.inputs[0]), scope.tensor(node.inputs[1]))


@lowers("FusedMatMul", domain=MICROSOFT_DOMAIN)
def lower_fused_matmul(scope: LoweringScope, node: Node) -> None:
    """Lower to a product of matrices, transposed or not, times a number."""
    if attribute(node, "transBatchA", 0) or attribute(node, "transBatchB", 0):
        raise NotLoweredError("it transposes batches")
    left, right = scope.tensor(node.inputs[0]), scope.tensor(node.inputs[1])
    alpha = float(attribute(node, "alpha", 1.0))
    make_product(
        scope,
        node,
        left,
        right,
        is_transposed=(bool(attribute(node, "transA", 0)), bool(attribute(node, "transB", 0))),
        epilogue=None if alpha == 1 else _scaled(Made(Scalar.F32), alpha),
    )


@lowers("Gemm")
def lower_gemm(scope: LoweringScope, node: Node) -> None:
    """Lower to alpha * A * B + beta * C, with A and B transposed or not."""
    left, right = scope.tensor(node.inputs[0]), scope.tensor(node.inputs[1])
    value: Element = _scaled(Made(Scalar.F32), float(attribute(node, "alpha", 1.0)))
    beta = float(attribute(node, "beta", 1.0))
    if len(node.inputs) > 2 and node.inputs[2] and beta != 0:  # 0 times infinity would be NaN
        bias = widened(scope.broadcast(node.inputs[2], scope.shape(node.outputs[0])))
        value = Call(Function.ADD, (value, _scaled(bias, beta)))
    make_product(
        scope,
        node,
        left,
        right,
        is_transposed=(bool(attribute(node, "transA", 0)), bool(attribute(node, "transB", 0))),
        epilogue=value,
    )


def _scaled(value: Element, factor: float) -> Element:
    return value if factor == 1 else Call(Function.MUL, (value, number(factor, Scalar.F32)))


def make_product(
    scope: LoweringScope,
    node: Node,
    left: Tensor,
    right: Tensor,
    *,
    is_transposed: tuple[bool, bool] = (False, False),
    zeros: tuple[Element | None, Element | None] = (None, None),
    epilogue: Element | None = None,
) -> None:
    """Write the product of two tensors to the node's first output.

    Args:
        scope: the partition.
        node: the node.
        left, right: both floats, or both bytes, whose sums are i32.
        is_transposed: True for each side that is transposed.
        zeros: zero points of the sides, for bytes.
        epilogue: expression over the axes of a result with at least two dimensions.
    """
    sums = _sums_of(left, right, zeros)
    output = scope.tensor(node.outputs[0])
    left_shape, right_shape = matrix_shapes(left, right)
    m, n, k, other_k = matrix_sizes(left, right, is_transposed)
    scope.require_equal(k, other_k)
    batch = batch_of(output, left, right)
    for shape in (left_shape[:-2], right_shape[:-2]):
        for size, wide in zip(shape[::-1], batch[::-1], strict=False):
            scope.is_repeated(size, wide)
    made = output
    if len(batch) + 2 != len(output.shape):
        made = scope.temporary(output.scalar, (*batch, m, n), "product")
    value = as_kind(Made(sums) if epilogue is None else epilogue, output.scalar)
    scope.emit(
        Product(
            output=made,
            batch=batch,
            m=m,
            n=n,
            k=k,
            left=matrix_read(left, left_shape, len(batch), is_transposed[0], is_row=True),
            right=matrix_read(right, right_shape, len(batch), is_transposed[1], is_row=False),
            left_zero=zeros[0],
            right_zero=zeros[1],
            epilogue=None if isinstance(value, Made) else value,
        )
    )
    if made is not output:
        scope.alias(output, made)


def _sums_of(left: Tensor, right: Tensor, zeros: tuple[Element | None, Element | None]) -> Scalar:
    """Return the scalar type of a product's sums."""
    kinds = {left.scalar, right.scalar}
    if kinds <= _FLOATS:
        return Scalar.F32
    if not kinds <= _BYTES:
        raise NotLoweredError(f"products of {left.scalar.value} are not compiled")
    for side, zero in zip((left, right), zeros, strict=True):
        if zero is not None and scalar_of(zero) is not side.scalar:
            raise NotLoweredError("a zero point is of another kind than its matrix")
    return Scalar.I32


def matrix_shapes(left: Tensor, right: Tensor) -> tuple[tuple[Size, ...], tuple[Size, ...]]:
    """Return the shapes of two factors, vectors as matrices of one row or one column."""
    return (
        (1, *left.shape) if len(left.shape) == 1 else left.shape,
        (*right.shape, 1) if len(right.shape) == 1 else right.shape,
    )


def matrix_sizes(
    left: Tensor, right: Tensor, is_transposed: tuple[bool, bool]
) -> tuple[Size, Size, Size, Size]:
    """Return rows and columns of a product, columns of the left side, rows of the right one."""
    left_shape, right_shape = matrix_shapes(left, right)
    m, k = _matrix(left_shape, is_transposed[0])
    other_k, n = _matrix(right_shape, is_transposed[1])
    return m, n, k, other_k


def _matrix(shape: Sequence[Size], is_transposed: bool) -> tuple[Size, Size]:
    rows, columns = shape[-2:]
    return (columns, rows) if is_transposed else (rows, columns)


def batch_of(output: Tensor, left: Tensor, right: Tensor) -> tuple[Size, ...]:
    """Return the output's sizes before the matrix dimensions, which vectors do not have."""
    missing = (len(left.shape) == 1) + (len(right.shape) == 1)
    return output.shape[: len(output.shape) - 2 + missing]


def matrix_read(
    tensor: Tensor, shape: Sequence[Size], batch: int, is_transposed: bool, *, is_row: bool
) -> Element:
    """Return an operand's element at (batch..., row, column) of its matrix.

    Args:
        tensor: the operand.
        shape: its shape as a matrix; a vector has an added size of 1.
        batch: number of batch axes.
        is_transposed: True if rows and columns are swapped.
        is_row: True if a vector is a row.
    """
    rank = len(shape) - 2
    first = batch - rank
    coordinates = [
        Coordinate() if shape[dimension] == 1 else along(first + dimension)
        for dimension in range(rank)
    ]
    rows, columns = along(batch), along(batch + 1)
    coordinates += [columns, rows] if is_transposed else [rows, columns]
    if len(tensor.shape) == 1:
        coordinates = [coordinates[1] if is_row else coordinates[0]]
    return widened(Read(tensor, tuple(coordinates)))
