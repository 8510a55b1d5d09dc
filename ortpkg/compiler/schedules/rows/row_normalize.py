"""Schedules softmax, layer normalization and the like: several passes over a row in cache.

The first passes fold the row, the last one writes it. If the output is f32, the row's elements stay
in it between passes, so that its expression is computed only once; otherwise each pass computes it
again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from ortpkg.compiler.loop_ir.kernel import Op, Value
from ortpkg.compiler.loop_ir.kernel_builder import Operand
from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.schedules.element_cost import element_ns, elements_in_tile
from ortpkg.compiler.schedules.element_values import ElementValues
from ortpkg.compiler.schedules.kernel_maker import KernelMaker, strides_of
from ortpkg.compiler.schedules.linear_reads import LinearIndex, flattened_coordinates, linear_index
from ortpkg.compiler.schedules.machine_model import MachineModel
from ortpkg.compiler.schedules.math_functions import exp, log
from ortpkg.compiler.schedules.rows.axis_collapse import collapsed
from ortpkg.compiler.schedules.rows.row_tiles import positions_of, product_of, row_tiles
from ortpkg.compiler.schedules.rows.vector_folds import (
    GREATEST_NUMBER,
    Folding,
    fold_vectors,
    folding_of,
)
from ortpkg.compiler.schedules.rows.vector_loops import for_vectors, has_masks
from ortpkg.compiler.schedules.scheduled_kernel import ScheduledKernel
from ortpkg.compiler.tensor_ir.elements import (
    Element,
    Made,
    Read,
    Tensor,
    along,
    parts_of,
    scalar_of,
)
from ortpkg.compiler.tensor_ir.operations import Combiner, RowFunction, RowNormalize

_ACCUMULATORS = 4
#: Rough time of the function itself for one element, with 16 lanes.
_FUNCTION_NS = 0.6
_SUM = folding_of(Combiner.SUM, Scalar.F32)


def schedule_row_normalize(
    operation: RowNormalize, model: MachineModel, constants: Collection[Tensor]
) -> list[ScheduledKernel]:
    """Return the kernel of all rows; ``constants`` are read like other tensors."""
    del constants
    return [_RowKernel(operation, model).scheduled()]


class _RowKernel:
    def __init__(self, operation: RowNormalize, model: MachineModel) -> None:
        last = len(operation.axes) - 1
        epilogue = operation.epilogue or Made(Scalar.F32)
        whole = flattened_coordinates(operation.output, [along(axis) for axis in range(last + 1)])
        strides = strides_of(operation.axes[:last])
        of_rows = LinearIndex(terms=tuple(enumerate(strides)), offset=0, values=())
        flat = collapsed(
            operation.axes, [operation.value, epilogue], [whole, of_rows], borders=[last]
        )
        self._operation, self._model = operation, model
        self._axes, (self._value, self._epilogue) = flat.axes, flat.values
        self._output_index, self._row_index = flat.indices
        self._maker = KernelMaker(operation.function.value)
        self._values = ElementValues(self._maker, model)
        self._output = self._maker.written(operation.output)
        self._lanes = model.lanes(Scalar.F32)
        parts = [part for value in flat.values for part in parts_of(value)]
        self._is_masked = has_masks(
            model, [operation.output.scalar, *(scalar_of(part) for part in parts)]
        )
        is_f32 = operation.output.scalar is Scalar.F32
        self._is_held = is_f32 and not self._is_plain(flat.values[0])
        self._can_hold = is_f32

    def scheduled(self) -> ScheduledKernel:
        """Return the kernel with its tiles."""
        *rows, width = self._axes
        maker, b = self._maker, self._maker.builder
        cost = _FUNCTION_NS + sum(
            element_ns(element, self._model, len(rows)) for element in (self._value, self._epilogue)
        )
        tiles = row_tiles(product_of(rows), width, elements_in_tile(cost), may_split=False)
        with tiles.each_row(maker) as (row, _, _):
            at = positions_of(b, row, [maker.size(size) for size in rows])
            _FUNCTIONS[self._operation.function](self, at)
        return maker.scheduled(tiles.count)

    # --- functions --------------------------------------------------------------------------------

    def softmax(self, at: Sequence[Operand]) -> None:
        """Emit exp(x - max), stored in the output if possible, then times 1 / sum."""
        b = self._maker.builder
        most = self._fold(at, GREATEST_NUMBER, lambda x: x, is_first=True)

        def grown(x: Value) -> Value:
            return exp(b, b.sub(x, most))

        total = self._fold(at, _SUM, grown, is_stored=self._can_hold)
        scale = b.div(b.constant(1.0, total.type), total)
        if self._can_hold:
            self._write(at, lambda x: b.mul(x, scale), is_held=True)
        else:
            self._write(at, lambda x: b.mul(grown(x), scale))

    def log_softmax(self, at: Sequence[Operand]) -> None:
        """Emit (x - max) - log(sum of exp(x - max))."""
        b = self._maker.builder
        most = self._fold(at, GREATEST_NUMBER, lambda x: x, is_first=True)
        total = log(b, self._fold(at, _SUM, lambda x: exp(b, b.sub(x, most))))
        self._write(at, lambda x: b.sub(b.sub(x, most), total))

    def standardize(self, at: Sequence[Operand]) -> None:
        """Emit (x - mean) / sqrt(variance + epsilon), with the variance of x - mean."""
        b = self._maker.builder
        mean = self._mean_of(self._fold(at, _SUM, lambda x: x, is_first=True))

        def squared(x: Value) -> Value:
            distance = b.sub(x, mean)
            return b.mul(distance, distance)

        scale = self._reciprocal_root(self._fold(at, _SUM, squared))
        for tensor, number in zip(self._operation.statistics, (mean, scale), strict=True):
            if tensor is not None:
                index = self._index(self._row_index, [*at, 0])
                b.store(self._maker.written(tensor), index, b.cast(number, tensor.scalar))
        self._write(at, lambda x: b.mul(b.sub(x, mean), scale))

    def rms(self, at: Sequence[Operand]) -> None:
        """Emit x / sqrt(mean of squares + epsilon)."""
        b = self._maker.builder
        squares = self._fold(at, _SUM, lambda x: b.mul(x, x), is_first=True)
        scale = self._reciprocal_root(squares)
        self._write(at, lambda x: b.mul(x, scale))

    def _mean_of(self, total: Value) -> Value:
        b = self._maker.builder
        return b.div(total, b.cast(self._maker.value(self._axes[-1]), Scalar.F32))

    def _reciprocal_root(self, squares: Value) -> Value:
        b = self._maker.builder
        moved = b.add(self._mean_of(squares), self._operation.epsilon)
        return b.div(b.constant(1.0, moved.type), b.compute(Op.SQRT, moved))

    # --- passes -----------------------------------------------------------------------------------

    def _fold(
        self,
        at: Sequence[Operand],
        folding: Folding,
        change: Callable[[Value], Value],
        *,
        is_first: bool = False,
        is_stored: bool = False,
    ) -> Value:
        """Emit a pass that folds a function of each element of the row; return the result.

        Args:
            at: the row.
            folding: the folding.
            change: function of an element.
            is_first: True for the first pass, which computes the elements and stores them.
            is_stored: True to store the changed elements in the output.
        """
        b, output = self._maker.builder, self._output

        def body(index: Value, lanes: int, count: Operand | None) -> Value:
            x = self._element([*at, index], lanes, count, is_held=self._is_held and not is_first)
            made = change(x)
            if is_stored or (is_first and self._is_held):
                target = self._index(self._output_index, [*at, index])
                b.store(output, target, made if is_stored else x, count)
            return made

        return fold_vectors(
            b, 0, self._maker.size(self._axes[-1]), body, folding, lanes=self._lanes,
            accumulators=_ACCUMULATORS, is_masked=self._is_masked,
        )  # fmt: skip

    def _write(
        self,
        at: Sequence[Operand],
        change: Callable[[Value], Value],
        *,
        is_held: bool | None = None,
    ) -> None:
        """Emit a pass that writes a function of each element of the row, through the epilogue."""
        b, reads_output = self._maker.builder, self._is_held if is_held is None else is_held

        def body(index: Value, lanes: int, count: Operand | None) -> None:
            axes = [*at, index]
            made = change(self._element(axes, lanes, count, is_held=reads_output))
            value = self._values.value_of(
                self._epilogue, axes, vector_axis=len(at), lanes=lanes, count=count, made=made
            )
            b.store(self._output, self._index(self._output_index, axes), value, count)

        for_vectors(
            b, 0, self._maker.size(self._axes[-1]), body, lanes=self._lanes, unroll=2,
            is_masked=self._is_masked,
        )  # fmt: skip

    def _element(
        self, axes: Sequence[Operand], lanes: int, count: Operand | None, *, is_held: bool
    ) -> Value:
        if is_held:
            index = self._index(self._output_index, axes)
            return self._maker.builder.load(self._output, index, lanes, count)
        return self._values.value_of(
            self._value, axes, vector_axis=len(axes) - 1, lanes=lanes, count=count
        )

    def _index(self, linear: LinearIndex, axes: Sequence[Operand]) -> Value:
        b = self._maker.builder
        index: Value = self._maker.value(linear.offset)
        for axis, number in linear.terms:
            index = b.add(index, b.mul(b.index(axes[axis]), self._maker.size(number)))
        return index

    def _is_plain(self, value: Element) -> bool:
        """Return True if the elements are unchanged and contiguous in memory."""
        return isinstance(value, Read) and linear_index(value).stride(len(self._axes) - 1) == 1


_FUNCTIONS: dict[RowFunction, Callable[[_RowKernel, Sequence[Operand]], None]] = {
    RowFunction.SOFTMAX: _RowKernel.softmax,
    RowFunction.LOG_SOFTMAX: _RowKernel.log_softmax,
    RowFunction.STANDARDIZE: _RowKernel.standardize,
    RowFunction.RMS: _RowKernel.rms,
}
