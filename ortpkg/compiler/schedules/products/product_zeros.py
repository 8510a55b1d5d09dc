"""Zero points of integer products, subtracted from sums computed without them.

With zero points a and b, the sum over k of (l - a) * (r - b) is

    sum(l * r) - a * sum(r) - b * (sum(l) - k * a)

where sum(r) belongs to a column and sum(l) to a row. All of it wraps around in i32, as the exact
sum does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ortpkg.compiler.loop_ir.kernel import Value
from ortpkg.compiler.loop_ir.kernel_builder import Operand
from ortpkg.compiler.loop_ir.loop_types import I32, Scalar
from ortpkg.compiler.schedules.element_values import ElementValues
from ortpkg.compiler.schedules.kernel_maker import KernelMaker
from ortpkg.compiler.schedules.products.product_space import (
    PackedTensor,
    ProductSpace,
    StridedRows,
    sum_of_strides,
)
from ortpkg.compiler.schedules.products.product_steps import BYTE_SHIFT
from ortpkg.compiler.tensor_ir.elements import Element, Number, scalar_of
from ortpkg.compiler.tensor_ir.operations import Product


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroSums:
    """Sums that zero points need.

    Attributes:
        columns: sums of the right side's bytes over each column, (matrix, column); None if the left
            side has no zero point.
        rows: sums of the left side's bytes over each row; None if the right side has no zero point.
    """

    columns: PackedTensor | None
    rows: StridedRows | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTerms:
    """Terms of a row: its zero point, and the factor of the columns' zero points."""

    zero: Value | None
    factor: Value | None


def left_has_zero(product: Product) -> bool:
    """Return True if the left side, as u8, has a zero point."""
    return scalar_of(product.left) is Scalar.I8 or not _is_none(product.left_zero)


def right_has_zero(product: Product) -> bool:
    """Return True if the right side, as i8, has a zero point."""
    return scalar_of(product.right) is Scalar.U8 or not _is_none(product.right_zero)


def _is_none(zero: Element | None) -> bool:
    return zero is None or (isinstance(zero, Number) and zero.number == 0)


class ZeroCorrection:
    """Subtracts zero points from the sums of one kernel."""

    def __init__(
        self,
        maker: KernelMaker,
        values: ElementValues,
        product: Product,
        space: ProductSpace,
        sums: ZeroSums,
    ) -> None:
        self._maker, self._values, self._sums = maker, values, sums
        self._product, self._space = product, space
        self._left_shift = BYTE_SHIFT if scalar_of(product.left) is Scalar.I8 else 0
        self._right_shift = -BYTE_SHIFT if scalar_of(product.right) is Scalar.U8 else 0

    def of_row(self, matrix: Sequence[Operand], row: Value) -> RowTerms:
        """Return the terms of a row."""
        b, rows = self._maker.builder, self._sums.rows
        axes = self._space.row_axes(self._maker, matrix, row)
        zero = None
        if self._sums.columns is not None:
            zero = self._zero(self._product.left_zero, [*axes, 0], 1, None, self._left_shift)
        if rows is None:
            return RowTerms(zero=zero, factor=None)
        batch = [] if self._space.is_merged else rows.batch
        at = sum_of_strides(self._maker, [*matrix, row], [*batch, rows.row], rows.offset)
        factor = b.load(self._maker.read(rows.tensor), at)
        if zero is not None:
            depth = b.cast(self._maker.value(self._product.k), Scalar.I32)
            factor = b.sub(factor, b.mul(depth, zero))
        return RowTerms(zero=zero, factor=factor)

    def corrected(
        self,
        sums: Value,
        terms: RowTerms,
        row_axes: Sequence[Operand],
        column: Value,
        count: Operand | None,
    ) -> Value:
        """Return the sums of neighbouring columns without the zero points."""
        b, columns, lanes = self._maker.builder, self._sums.columns, sums.type.lanes
        *batch, _ = row_axes
        if terms.zero is not None and columns is not None:
            read = columns.read(self._maker)
            at = sum_of_strides(self._maker, [*batch, column], [*columns.batch, 1])
            sums = b.sub(sums, b.mul(terms.zero, b.load(read, at, lanes)))
        if terms.factor is not None:
            axes = [*batch, 0, column]
            zero = self._zero(self._product.right_zero, axes, lanes, count, self._right_shift)
            sums = b.sub(sums, b.mul(terms.factor, zero))
        return sums

    def _zero(
        self,
        element: Element | None,
        axes: Sequence[Operand],
        lanes: int,
        count: Operand | None,
        shift: int,
    ) -> Value:
        b = self._maker.builder
        if element is None:
            return b.constant(shift, I32.with_lanes(lanes))
        axis = len(axes) - 1 if lanes > 1 else None
        value = self._values.value_of(element, axes, vector_axis=axis, lanes=lanes, count=count)
        return b.add(b.cast(value, Scalar.I32), shift)
