"""Products of few vectors with rows that are contiguous along k: a dot product for each row.

A matrix times a vector, or few rows times columns contiguous along k, as in attention with a cache,
is bound by memory: the rows are read once, in whole vectors along k, and nothing is packed. Each
lane sums its share of the products, and the lanes are summed at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ortpkg.compiler.loop_ir.kernel import Op, Value
from ortpkg.compiler.loop_ir.kernel_builder import Operand
from ortpkg.compiler.loop_ir.loop_types import F32, Scalar
from ortpkg.compiler.schedules.element_values import ElementValues
from ortpkg.compiler.schedules.even_parts import parts_count
from ortpkg.compiler.schedules.kernel_maker import KernelMaker, strides_of
from ortpkg.compiler.schedules.machine_model import MachineModel
from ortpkg.compiler.schedules.products.product_space import (
    StridedRows,
    columns_in_place,
    rows_in_place,
    split_index,
    sum_of_strides,
)
from ortpkg.compiler.schedules.scheduled_kernel import ScheduledKernel
from ortpkg.compiler.tensor_ir.elements import scalar_of
from ortpkg.compiler.tensor_ir.operations import Product
from ortpkg.graph.shapes.expressions import Size

_MOST_VECTORS = 4
_ROWS_AT_ONCE = 4
#: Approximate count of numbers that a tile reads, and its most rows.
_TILE_NUMBERS, _MOST_ROWS = 1 << 16, 256


def product_of_dots(product: Product, model: MachineModel) -> ScheduledKernel | None:
    """Return the kernel of a product of few vectors with rows contiguous along k, else None.

    Few vectors are one column, or up to four rows; they must be contiguous along k, too.
    """
    if {scalar_of(product.left), scalar_of(product.right)} != {Scalar.F32}:
        return None
    left = rows_in_place(product.left, len(product.batch))
    right = columns_in_place(product.right, len(product.batch))
    if left is None or right is None or left.step != 1 or right.step != 1:
        return None
    if product.n == 1:
        return _DotKernel(product, left, right, 1, model, has_long_rows=True).scheduled()
    if isinstance(product.m, int) and 1 <= product.m <= _MOST_VECTORS:
        return _DotKernel(product, right, left, product.m, model, has_long_rows=False).scheduled()
    return None


class _DotKernel:
    """A kernel whose tile computes a block of rows, then runs the epilogue along the rows."""

    def __init__(
        self,
        product: Product,
        rows: StridedRows,
        vectors: StridedRows,
        vector_count: int,
        model: MachineModel,
        *,
        has_long_rows: bool,
    ) -> None:
        """Create a kernel.

        Args:
            product: the product.
            rows: the many rows, of the left or the right side.
            vectors: the few vectors of the other side.
            vector_count: number of vectors.
            model: the CPU.
            has_long_rows: True if the rows are the left side's, and the one vector is the right
                side.
        """
        self._product, self._rows, self._vectors = product, rows, vectors
        self._vector_count, self._is_left = vector_count, has_long_rows
        self._row_count: Size = product.m if has_long_rows else product.n
        self._maker = maker = KernelMaker("product_dots")
        self._b = maker.builder
        self._values = ElementValues(maker, model)
        self._lanes = lanes = model.lanes(Scalar.F32)
        self._block = _row_block(product.k, lanes)
        self._row_buffer, self._vector_buffer = maker.read(rows.tensor), maker.read(vectors.tensor)
        self._output = maker.written(product.output)
        self._sums = self._b.scratch("sums", Scalar.F32, vector_count * self._block)

    def scheduled(self) -> ScheduledKernel:
        b, maker = self._b, self._maker
        sizes = (*self._product.batch, parts_count(self._row_count, self._block))
        *matrix, block = split_index(maker, b.tile, sizes)
        first = b.mul(b.index(block), self._block)
        end = b.least(b.add(first, self._block), maker.value(self._row_count))
        with b.loop(first, end, _ROWS_AT_ONCE, hint="row") as row:
            self._group(matrix, first, row.index)
        with b.loop(0, self._vector_count, hint="vector") as vector:
            self._epilogue(matrix, vector.index, first, end)
        return maker.scheduled(prod(sizes, start=1))

    def _group(self, matrix: Sequence[Operand], first: Value, row: Value) -> None:
        """Emit the dot products of some rows with each vector; the last row is repeated."""
        b, maker, lanes = self._b, self._maker, self._lanes
        last = b.sub(maker.value(self._row_count), 1)
        row_base = self._base(matrix, self._rows)
        stride = maker.size(self._rows.row)
        rows = [
            b.add(row_base, b.mul(b.least(b.add(row, number), last), stride))
            for number in range(_ROWS_AT_ONCE)
        ]
        vector_base, vector_stride = self._base(matrix, self._vectors), self._vectors.row
        vectors = [
            b.add(vector_base, b.mul(b.index(number), maker.size(vector_stride)))
            for number in range(self._vector_count)
        ]
        depth = maker.value(self._product.k)
        rest = b.compute(Op.AND, depth, lanes - 1)
        zeros = [b.constant(0, F32.with_lanes(lanes))] * (len(rows) * len(vectors))
        with b.loop(0, b.sub(depth, rest), lanes, carried=zeros, hint="step") as step:
            step.hand_on(*self._added(step.carried, rows, vectors, step.index, None))
        sums = list(step.results)
        k = self._product.k
        if not (isinstance(k, int) and k % lanes == 0):
            sums = self._added(sums, rows, vectors, b.sub(depth, rest), rest)
        start = b.sub(row, first)
        for number, vector_sum in enumerate(sums):
            offset = number % len(rows) + number // len(rows) * self._block
            b.store(self._sums, b.add(start, offset), b.compute(Op.SUM, vector_sum))

    def _added(
        self,
        sums: Sequence[Value],
        rows: Sequence[Value],
        vectors: Sequence[Value],
        step: Value,
        count: Value | None,
    ) -> list[Value]:
        b, lanes = self._b, self._lanes
        numbers = [b.load(self._row_buffer, b.add(row, step), lanes, count) for row in rows]
        made: list[Value] = []
        for vector_number, vector in enumerate(vectors):
            factor = b.load(self._vector_buffer, b.add(vector, step), lanes, count)
            before = sums[vector_number * len(rows) : (vector_number + 1) * len(rows)]
            made += [
                b.fma(row_vector, factor, total)
                for row_vector, total in zip(numbers, before, strict=True)
            ]
        return made

    def _base(self, matrix: Sequence[Operand], side: StridedRows) -> Value:
        return self._b.index(sum_of_strides(self._maker, matrix, side.batch, side.offset))

    def _epilogue(self, matrix: Sequence[Operand], vector: Value, first: Value, end: Value) -> None:
        b, lanes = self._b, self._lanes
        count = b.sub(end, first)
        rest = b.compute(Op.AND, count, lanes - 1)
        whole = b.sub(count, rest)
        with b.loop(0, whole, lanes) as loop:
            self._finish(matrix, vector, first, loop.index, None)
        with b.when(b.compute(Op.GT, rest, 0)):
            self._finish(matrix, vector, first, whole, rest)

    def _finish(
        self,
        matrix: Sequence[Operand],
        vector: Value,
        first: Value,
        position: Value,
        count: Value | None,
    ) -> None:
        b, output = self._b, self._product.output
        made = b.load(self._sums, b.add(b.mul(vector, self._block), position), self._lanes)
        along_rows = b.add(first, position)
        last_axes = [along_rows, vector] if self._is_left else [vector, along_rows]
        if self._product.epilogue is not None:
            made = self._values.value_of(
                self._product.epilogue,
                [*matrix, *last_axes],
                vector_axis=len(matrix) + (0 if self._is_left else 1),
                lanes=self._lanes,
                count=count,
                made=made,
            )
        shape = (*self._product.batch, self._product.m, self._product.n)
        at = sum_of_strides(self._maker, [*matrix, *last_axes], strides_of(shape))
        b.store(self._output, at, b.cast(made, output.scalar), count)


def _row_block(depth: Size, lanes: int) -> int:
    if not isinstance(depth, int):
        return 64
    rows = min(max(_TILE_NUMBERS // max(depth, 1), _ROWS_AT_ONCE), _MOST_ROWS)
    return -(-rows // lanes) * lanes
