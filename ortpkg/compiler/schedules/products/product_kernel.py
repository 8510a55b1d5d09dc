"""The kernel of a matrix product over packed panels.

A tile takes a block of rows and some panels (:mod:`.product_tiling`). For each panel, register tile
by register tile, it sums along k in registers, stores the sums in scratch memory, and runs the
epilogue over them. If the panel does not fit the cache, the sums of all rows of the block stay in
scratch memory, and k is walked part by part. Every sum is made in the order of k.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ortpkg.compiler.loop_ir.kernel import Op, Value
from ortpkg.compiler.loop_ir.kernel_builder import Operand
from ortpkg.compiler.loop_ir.loop_types import LoopType
from ortpkg.compiler.schedules.element_values import ElementValues
from ortpkg.compiler.schedules.even_parts import parts_count
from ortpkg.compiler.schedules.kernel_maker import KernelMaker
from ortpkg.compiler.schedules.machine_model import MachineModel
from ortpkg.compiler.schedules.products.product_space import (
    ProductSpace,
    RightPanels,
    StridedRows,
    split_index,
    sum_of_strides,
)
from ortpkg.compiler.schedules.products.product_steps import ProductSteps
from ortpkg.compiler.schedules.products.product_tiling import ProductTiling
from ortpkg.compiler.schedules.products.product_zeros import RowTerms, ZeroCorrection, ZeroSums
from ortpkg.compiler.schedules.scheduled_kernel import ScheduledKernel
from ortpkg.compiler.tensor_ir.operations import Product
from ortpkg.graph.shapes.expressions import Size


def product_kernel(
    product: Product,
    space: ProductSpace,
    left: StridedRows,
    right: RightPanels,
    tiling: ProductTiling,
    model: MachineModel,
    steps: ProductSteps,
    zeros: ZeroSums | None = None,
) -> ScheduledKernel:
    """Return the kernel that computes the product of the sides.

    ``zeros`` are the sums needed for zero points; None if there are no zero points.
    """
    made = _ProductKernel(product, space, left, right, tiling, model, steps, zeros)
    return made.scheduled()


class _ProductKernel:
    def __init__(
        self,
        product: Product,
        space: ProductSpace,
        left: StridedRows,
        right: RightPanels,
        tiling: ProductTiling,
        model: MachineModel,
        steps: ProductSteps,
        zeros: ZeroSums | None,
    ) -> None:
        self._product, self._space, self._tiling = product, space, tiling
        self._left, self._right, self._steps = left, right, steps
        self._maker = maker = KernelMaker("product")
        self._b = maker.builder
        self._values = ElementValues(maker, model)
        self._zeros = (
            None if zeros is None else ZeroCorrection(maker, self._values, product, space, zeros)
        )
        self._left_buffer = maker.read(left.tensor)
        self._right_buffer = right.stored.read(maker)
        self._output = maker.written(product.output)
        sum_rows = tiling.rows if tiling.k_block is None else tiling.row_block
        self._sums = self._b.scratch("sums", steps.sums, sum_rows * tiling.panel_width)
        self._vector = LoopType(steps.sums, tiling.lanes)
        self._counts: Sequence[Operand | None] = ()

    def scheduled(self) -> ScheduledKernel:
        space, tiling, maker = self._space, self._tiling, self._maker
        row_blocks = parts_count(space.rows, tiling.row_block)
        panels = parts_count(space.n, tiling.panel_width)
        groups = parts_count(panels, tiling.panel_block)
        sizes: tuple[Size, ...] = (*space.matrices, groups, row_blocks)
        *matrix, group, block = split_index(maker, self._b.tile, sizes)
        b = self._b
        first_row = b.mul(b.index(block), tiling.row_block)
        end_row = b.least(b.add(first_row, tiling.row_block), maker.value(space.rows))
        first_panel = b.mul(b.index(group), tiling.panel_block)
        end_panel = b.least(b.add(first_panel, tiling.panel_block), maker.value(panels))
        with b.loop(first_panel, end_panel, hint="panel") as panel:
            self._panel(matrix, panel.index, first_row, end_row)
        return maker.scheduled(prod(sizes, start=1))

    def _valid_lanes(self, column: Value) -> list[Operand | None]:
        """Return the number of valid lanes of each vector of a panel; None if all can be read."""
        b, tiling = self._b, self._tiling
        if self._right.is_padded:
            return [None] * tiling.vectors
        left = b.sub(self._maker.value(self._space.n), column)
        return [b.sub(left, vector * tiling.lanes) for vector in range(tiling.vectors)]

    # --- sums -------------------------------------------------------------------------------------

    def _panel(
        self, matrix: Sequence[Operand], panel: Value, first_row: Value, end_row: Value
    ) -> None:
        b, tiling, maker = self._b, self._tiling, self._maker
        depth = parts_count(self._product.k, self._steps.group)
        right_axes = [*([0] * len(self._product.batch) if self._space.is_merged else matrix)]
        right = self._right
        base = sum_of_strides(
            maker, [*right_axes, panel], [*right.stored.batch, right.panel], right.offset
        )
        column = b.mul(panel, tiling.panel_width)
        self._counts = self._valid_lanes(column)
        if tiling.k_block is None:
            with b.loop(first_row, end_row, tiling.rows, hint="row") as row:
                zeros = [b.constant(0, self._vector)] * (tiling.rows * tiling.vectors)
                rows = self._row_offsets(matrix, row.index)
                self._store_sums(b.index(0), self._summed(rows, base, 0, maker.value(depth), zeros))
                end = b.least(b.add(row.index, tiling.rows), end_row)
                self._epilogue(matrix, row.index, end, column)
            return
        self._clear()
        with b.loop(0, maker.value(depth), tiling.k_block, hint="k") as part:
            stop = b.least(b.add(part.index, tiling.k_block), maker.value(depth))
            with b.loop(first_row, end_row, tiling.rows, hint="row") as row:
                stored = b.mul(b.sub(row.index, first_row), tiling.panel_width)
                rows = self._row_offsets(matrix, row.index)
                self._store_sums(
                    stored, self._summed(rows, base, part.index, stop, self._stored_sums(stored))
                )
        self._epilogue(matrix, first_row, end_row, column)

    def _row_offsets(self, matrix: Sequence[Operand], first: Value) -> list[Value]:
        """Return the offsets of the rows of a register tile; the last row is repeated."""
        b, left, maker = self._b, self._left, self._maker
        rows = self._space.rows
        batch = [] if self._space.is_merged else left.batch
        base = b.index(sum_of_strides(maker, matrix, batch, left.offset))
        is_whole = isinstance(rows, int) and rows % self._tiling.rows == 0
        last = b.sub(maker.value(rows), 1)
        offsets = []
        for number in range(self._tiling.rows):
            row = b.add(first, number)
            row = row if is_whole else b.least(row, last)
            offsets.append(b.add(base, b.mul(row, maker.size(left.row))))
        return offsets

    def _summed(
        self,
        rows: Sequence[Value],
        panel: Operand,
        start: Operand,
        stop: Operand,
        initial: Sequence[Value],
    ) -> tuple[Value, ...]:
        """Emit the micro-kernel: return the sums of one register tile after the steps."""
        b, steps, tiling = self._b, self._steps, self._tiling
        lanes, group = tiling.lanes, self._steps.group
        with b.loop(start, stop, carried=initial, hint="step") as step:
            vector_start = b.add(panel, b.mul(step.index, self._maker.size(self._right.step)))
            right = [
                steps.right(
                    b, self._right_buffer, b.add(vector_start, vector * lanes * group), lanes, count
                )
                for vector, count in enumerate(self._counts)
            ]
            along = b.mul(b.mul(step.index, self._maker.size(self._left.step)), group)
            sums = list(step.carried)
            for number, row in enumerate(rows):
                left = steps.left(b, self._left_buffer, b.add(row, along), lanes)
                for vector in range(tiling.vectors):
                    sum_index = number * tiling.vectors + vector
                    sums[sum_index] = steps.add(b, sums[sum_index], left, right[vector])
            step.hand_on(*sums)
        return step.results

    def _store_sums(self, first: Value, sums: Sequence[Value]) -> None:
        for number, total in enumerate(sums):
            self._b.store(self._sums, self._b.add(first, number * self._tiling.lanes), total)

    def _stored_sums(self, first: Value) -> list[Value]:
        b, lanes = self._b, self._tiling.lanes
        count = self._tiling.rows * self._tiling.vectors
        return [b.load(self._sums, b.add(first, at * lanes), lanes) for at in range(count)]

    def _clear(self) -> None:
        zero = self._b.constant(0, self._vector)
        with self._b.loop(0, self._sums.count, self._tiling.lanes) as loop:
            self._b.store(self._sums, loop.index, zero)

    # --- epilogue ---------------------------------------------------------------------------------

    def _epilogue(self, matrix: Sequence[Operand], first: Value, end: Value, column: Value) -> None:
        """Emit the epilogue of rows whose sums are at the start of the scratch memory."""
        b, lanes, n = self._b, self._tiling.lanes, self._space.n
        columns = b.least(b.sub(self._maker.value(n), column), self._tiling.panel_width)
        has_tail = not (isinstance(n, int) and n % lanes == 0)
        rest = b.compute(Op.AND, columns, lanes - 1) if has_tail else b.constant(0, column.type)
        whole = b.sub(columns, rest)
        with b.loop(first, end) as row:
            sums = b.mul(b.sub(row.index, first), self._tiling.panel_width)
            terms = None if self._zeros is None else self._zeros.of_row(matrix, row.index)
            with b.loop(0, whole, lanes) as loop:
                self._finish(matrix, row.index, terms, column, sums, loop.index, None)
            if has_tail:
                with b.when(b.compute(Op.GT, rest, 0)):
                    self._finish(matrix, row.index, terms, column, sums, whole, rest)

    def _finish(
        self,
        matrix: Sequence[Operand],
        row: Value,
        terms: RowTerms | None,
        first_column: Value,
        sums: Value,
        offset: Value,
        count: Value | None,
    ) -> None:
        b, maker, space = self._b, self._maker, self._space
        lanes, output = self._tiling.lanes, self._product.output
        made = b.load(self._sums, b.add(sums, offset), lanes)
        column = b.add(first_column, offset)
        row_axes = space.row_axes(maker, matrix, row)
        if self._zeros is not None and terms is not None:
            made = self._zeros.corrected(made, terms, row_axes, column, count)
        if self._product.epilogue is not None:
            made = self._values.value_of(
                self._product.epilogue,
                [*row_axes, column],
                vector_axis=len(row_axes),
                lanes=lanes,
                count=count,
                made=made,
            )
        matrices = [] if space.is_merged else [*self._matrix_strides()]
        target = sum_of_strides(
            maker, [*([] if space.is_merged else matrix), row, column], [*matrices, space.n, 1]
        )
        b.store(self._output, target, b.cast(made, output.scalar), count)

    def _matrix_strides(self) -> list[Size]:
        batch, rows = self._space.batch, self._space.rows
        return [prod(batch[axis + 1 :], start=rows * self._space.n) for axis in range(len(batch))]
