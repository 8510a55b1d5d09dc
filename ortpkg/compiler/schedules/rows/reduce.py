"""Schedules reductions: sums, products, greatest and least elements, in a fixed order.

If elements are contiguous along the last kept axis, each lane computes its own output; otherwise
neighbours along the last reduced axis are folded into one. The order does not depend on how threads
share tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from ortpkg.compiler.loop_ir.kernel import Value
from ortpkg.compiler.loop_ir.kernel_builder import Operand
from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.schedules.element_cost import element_ns, elements_in_tile
from ortpkg.compiler.schedules.element_values import ElementValues
from ortpkg.compiler.schedules.kernel_maker import KernelMaker, strides_of
from ortpkg.compiler.schedules.linear_reads import LinearIndex, linear_index
from ortpkg.compiler.schedules.machine_model import MachineModel
from ortpkg.compiler.schedules.rows.axis_collapse import collapsed
from ortpkg.compiler.schedules.rows.row_tiles import RowTiles, positions_of, product_of, row_tiles
from ortpkg.compiler.schedules.rows.vector_folds import fold_vectors, folding_of
from ortpkg.compiler.schedules.rows.vector_loops import for_vectors, has_masks, whole_end
from ortpkg.compiler.schedules.scheduled_kernel import ScheduledKernel
from ortpkg.compiler.tensor_ir.elements import Made, Read, Tensor, parts_of, scalar_of
from ortpkg.compiler.tensor_ir.operations import Reduce
from ortpkg.graph.shapes.expressions import Size

_ACCUMULATORS = 4
#: Vectors of outputs that are computed at once.
_UNROLLED = 4


def schedule_reduce(
    operation: Reduce, model: MachineModel, constants: Collection[Tensor]
) -> list[ScheduledKernel]:
    """Return the kernel of a reduction; ``constants`` are read like other tensors."""
    del constants
    return [_ReduceKernel(operation, model).scheduled()]


class _ReduceKernel:
    def __init__(self, operation: Reduce, model: MachineModel) -> None:
        outer_rank, scalar = len(operation.axes), scalar_of(operation.value)
        output_index = LinearIndex(
            terms=tuple(enumerate(strides_of(operation.axes))), offset=0, values=()
        )
        axes = (*operation.axes, *(operation.reduced or (1,)))
        flat = collapsed(
            axes,
            [operation.value, operation.epilogue or Made(scalar)],
            [output_index],
            borders=[outer_rank],
        )
        self._model, self._scalar = model, scalar
        self._value, self._epilogue = flat.values
        (self._output_index,) = flat.indices
        (self._outer_rank,) = flat.borders
        self._axes = flat.axes
        self._folding = folding_of(operation.combiner, scalar)
        self._maker = KernelMaker("reduce")
        self._values = ElementValues(self._maker, model)
        self._output = self._maker.written(operation.output)
        parts = [part for value in flat.values for part in parts_of(value)]
        scalars = {operation.output.scalar, *(scalar_of(part) for part in parts)}
        self._is_masked = has_masks(model, scalars)
        self._lanes = model.lanes(Scalar.F32)

    def scheduled(self) -> ScheduledKernel:
        """Return the kernel with its tiles."""
        if self._has_outputs_in_lanes():
            return self._scheduled_in_lanes()
        return self._scheduled_by_folds()

    def _has_outputs_in_lanes(self) -> bool:
        """Return True if neighbours along the last kept axis are computed side by side."""
        if self._outer_rank == 0:
            return False
        counts = [0, 0]
        for part in parts_of(self._value):
            if isinstance(part, Read):
                linear = linear_index(part)
                if linear.stride(len(self._axes) - 1) == 0:
                    continue  # equal for all elements that are folded
                for which, axis in enumerate((self._outer_rank - 1, len(self._axes) - 1)):
                    counts[which] += linear.stride(axis) == 1
        inner, outer = self._axes[-1], self._axes[self._outer_rank - 1]
        if isinstance(inner, int) and inner < self._lanes // 2:
            return not isinstance(outer, int) or outer >= inner
        return counts[0] > counts[1]

    # --- a lane for each output -------------------------------------------------------------------

    def _scheduled_in_lanes(self) -> ScheduledKernel:
        maker, axis = self._maker, self._outer_rank - 1
        count = product_of(self._axes[self._outer_rank :])
        wanted = self._tile_positions(axis, count)
        rows, width = product_of(self._axes[:axis]), self._axes[axis]
        tiles = row_tiles(rows, width, max(64, wanted // 64 * 64), may_split=True)

        def body(index: Value, lanes: int, lane_count: Operand | None) -> None:
            at[axis] = index
            made = self._folded_lanes(at, lanes, lane_count)
            self._store(at, made, lanes, lane_count)

        with tiles.each_row(maker) as (row, start, stop):
            at: list[Operand] = [*self._positions(row, axis), 0]
            wide = self._lanes * _UNROLLED  # as one vector, so that rows are read once
            whole = whole_end(maker.builder, start, stop, wide)
            with maker.builder.loop(start, whole, wide) as loop:
                body(loop.index, wide, None)
            for_vectors(
                maker.builder, whole, stop, body, lanes=self._lanes, is_masked=self._is_masked
            )  # fmt: skip
        return maker.scheduled(tiles.count)

    def _folded_lanes(self, at: Sequence[Operand], lanes: int, lane_count: Operand | None) -> Value:
        b, folding = self._maker.builder, self._folding

        def step(total: Value, reduced: Sequence[Operand]) -> Value:
            value = self._values.value_of(
                self._value,
                [*at, *reduced],
                vector_axis=self._outer_rank - 1,
                lanes=lanes,
                count=lane_count,
            )
            return folding.folded(b, total, value)

        return self._over_reduced(folding.start(b, lanes), self._axes[self._outer_rank :], step)

    # --- neighbours folded into one ---------------------------------------------------------------

    def _scheduled_by_folds(self) -> ScheduledKernel:
        maker, b, outer_rank = self._maker, self._maker.builder, self._outer_rank
        *outer, inner = self._axes[outer_rank:]
        wanted = self._tile_positions(len(self._axes) - 1, product_of(outer))
        tiles: RowTiles = row_tiles(
            product_of(self._axes[:outer_rank]), inner, wanted, may_split=False
        )
        with tiles.each_row(maker) as (row, _, _):
            at = self._positions(row, outer_rank)

            def step(total: Value, reduced: Sequence[Operand]) -> Value:
                return self._folding.folded(b, total, self._folded_neighbours([*at, *reduced]))

            made = self._over_reduced(self._folding.start(b, 1), outer, step)
            self._store(at, made, 1, None)
        return maker.scheduled(tiles.count)

    def _folded_neighbours(self, at: Sequence[Operand]) -> Value:
        def body(index: Value, lanes: int, lane_count: Operand | None) -> Value:
            return self._values.value_of(
                self._value, [*at, index], vector_axis=len(at), lanes=lanes, count=lane_count
            )

        return fold_vectors(
            self._maker.builder, 0, self._maker.size(self._axes[-1]), body, self._folding,
            lanes=self._lanes, accumulators=_ACCUMULATORS, is_masked=self._is_masked,
        )  # fmt: skip

    # --- both -------------------------------------------------------------------------------------

    def _tile_positions(self, vector_axis: int, times: Size) -> int:
        """Return the number of positions in a tile, each of ``times`` elements."""
        cost = element_ns(self._value, self._model, vector_axis)
        return elements_in_tile(cost * (times if isinstance(times, int) else 16))

    def _positions(self, row: Operand, count: int) -> list[Operand]:
        sizes = [self._maker.size(size) for size in self._axes[:count]]
        return positions_of(self._maker.builder, row, sizes)

    def _over_reduced(
        self,
        start: Value,
        sizes: Sequence[Size],
        step: Callable[[Value, Sequence[Operand]], Value],
        at: tuple[Operand, ...] = (),
    ) -> Value:
        """Emit nested loops, one for each size, around ``step``, which updates the total.

        Loops of unknown size check whether the run must end, as they may take long.
        """
        if not sizes:
            return step(start, at)
        count, is_open = self._maker.size(sizes[0]), not isinstance(sizes[0], int)
        with self._maker.builder.loop(0, count, carried=[start], may_stop=is_open) as loop:
            loop.hand_on(self._over_reduced(loop.carried[0], sizes[1:], step, (*at, loop.index)))
        return loop.results[0]

    def _store(
        self, at: Sequence[Operand], made: Value, lanes: int, lane_count: Operand | None
    ) -> None:
        b, vector_axis = self._maker.builder, self._outer_rank - 1
        value = self._values.value_of(
            self._epilogue, at, vector_axis=vector_axis if lanes > 1 else None, lanes=lanes,
            count=lane_count, made=b.cast(made, self._scalar),
        )  # fmt: skip
        index: Value = self._maker.value(0)
        for axis, number in self._output_index.terms:
            index = b.add(index, b.mul(b.index(at[axis]), self._maker.size(number)))
        b.store(self._output, index, value, lane_count)
