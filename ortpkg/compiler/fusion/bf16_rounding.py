"""Multiplies numbers rounded to bf16 instead of f32 ones, if the caller asked for it.

A product of f32 rows with a constant is changed: the constant is rounded when it is packed, the
rows by a map of their own, which several products share and fusion puts into the epilogue of the
operation that makes them. Sums stay f32. All other products stay as they are.
"""

from __future__ import annotations

from dataclasses import replace

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.tensor_ir.elements import Convert, Coordinate, Element, Read, Tensor, along
from ortpkg.compiler.tensor_ir.operations import Map, Operation, Product
from ortpkg.compiler.tensor_ir.tensor_program import TensorProgram


def round_products(program: TensorProgram) -> TensorProgram:
    """Return the program with bf16 products of f32 rows and constants."""
    rounded: dict[Tensor, Tensor] = {}
    operations: list[Operation] = []
    for operation in program.operations:
        rows = _rows(operation, program) if isinstance(operation, Product) else None
        if rows is None:
            operations.append(operation)
            continue
        source = rows.tensor
        if source not in rounded:
            rounded[source] = Tensor(f"{source.name} as bf16", Scalar.BF16, source.shape)
            operations.append(_rounding(source, rounded[source]))
        assert isinstance(operation, Product)
        operations.append(
            replace(
                operation,
                left=Read(rounded[source], rows.coordinates),
                right=Convert(operation.right, Scalar.BF16),
            )
        )
    return replace(program, operations=tuple(operations))


def _rows(product: Product, program: TensorProgram) -> Read | None:
    """Return the left side of a product to be done in bf16, else None.

    The instruction takes two neighbours along k at once.
    """
    left, right = product.left, product.right
    if not (isinstance(left, Read) and isinstance(right, Read)):
        return None
    kinds = (left.tensor.scalar, right.tensor.scalar)
    is_known = left.tensor in program.constants
    if kinds != (Scalar.F32, Scalar.F32) or is_known or right.tensor not in program.constants:
        return None
    is_even = isinstance(product.k, int) and product.k % 2 == 0
    is_wide = product.n != 1
    axis = len(product.batch) + 1
    return left if is_even and is_wide and _lies_along(left, axis) and _is_fixed(right) else None


def _lies_along(read: Read, axis: int) -> bool:
    """Return True if neighbours along the axis are neighbours in memory."""
    *others, last = read.coordinates
    others_move = any(
        term_axis == axis for coordinate in others for term_axis, _ in coordinate.terms
    )
    return last == along(axis) and not others_move and _is_fixed(read)


def _is_fixed(read: Read) -> bool:
    return all(coordinate.value is None for coordinate in read.coordinates)


def _rounding(source: Tensor, rounded: Tensor) -> Map:
    coordinates: tuple[Coordinate, ...] = tuple(along(axis) for axis in range(len(source.shape)))
    value: Element = Convert(Read(source, coordinates), Scalar.BF16)
    return Map(output=rounded, axes=source.shape, value=value, coordinates=coordinates)
