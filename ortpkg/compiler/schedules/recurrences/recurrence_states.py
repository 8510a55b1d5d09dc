"""States of a recurrent layer between its steps: memory layout, first and last states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ortpkg.compiler.loop_ir.kernel import Op, Value
from ortpkg.compiler.loop_ir.kernel_builder import KernelBuilder, Operand
from ortpkg.compiler.loop_ir.loop_types import I64, LoopType, Scalar
from ortpkg.compiler.schedules.element_values import ElementValues
from ortpkg.compiler.schedules.kernel_maker import KernelMaker, strides_of
from ortpkg.compiler.schedules.machine_model import MachineModel
from ortpkg.compiler.schedules.products.product_packing import Move, by_vectors
from ortpkg.compiler.schedules.products.product_space import split_index, sum_of_strides
from ortpkg.compiler.schedules.recurrences.recurrence_tiling import RecurrenceTiling
from ortpkg.compiler.schedules.scheduled_kernel import ScheduledKernel
from ortpkg.compiler.tensor_ir.elements import Tensor
from ortpkg.compiler.tensor_ir.operations import Cell, Recurrence
from ortpkg.graph.shapes.expressions import Size

#: Values that a cell keeps between steps, or between turns, besides its state.
_EXTRA = {Cell.LSTM: ("cell",), Cell.GRU: ("update", "reset")}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurrenceStates:
    """The memory of a layer's states, which its kernels share.

    Attributes:
        state: f32 tensor (2, directions, batch, row_size): the states before and after a step,
            which
            swap roles with each step.
        extra: further f32 tensors (directions, batch, row_size) of a cell, by name.
        row_size: number of units of a sequence, padded to whole panels.
        half: number of elements of the states at one time.
        phases: turns of a step, each of which needs all results of the one before; a GRU that
            resets before it multiplies has two.
    """

    state: Tensor
    extra: Mapping[str, Tensor]
    row_size: int
    half: Size
    phases: int

    def offset(self, maker: KernelMaker, direction: Operand, row: Operand) -> Value:
        """Return the offset of the units of a sequence in the states of one time."""
        strides = strides_of(self.state.shape[1:])[:2]
        return maker.builder.index(sum_of_strides(maker, [direction, row], strides))


def recurrence_states(operation: Recurrence, tiling: RecurrenceTiling) -> RecurrenceStates:
    """Return the states of a layer with this tiling."""
    row_size = -(-operation.hidden // tiling.width) * tiling.width
    shape: tuple[Size, ...] = (len(operation.backward), operation.batch, row_size)
    return RecurrenceStates(
        state=Tensor("state", Scalar.F32, (2, *shape)),
        extra={name: Tensor(name, Scalar.F32, shape) for name in _EXTRA.get(operation.cell, ())},
        row_size=row_size,
        half=len(operation.backward) * operation.batch * row_size,
        phases=2 if operation.cell is Cell.GRU else 1,
    )


def length_of(
    b: KernelBuilder, operation: Recurrence, values: ElementValues, row: Operand
) -> Value | None:
    """Return the number of steps of a sequence; None if all have the same."""
    if operation.lengths is None:
        return None
    made = values.value_of(operation.lengths, [row], vector_axis=None, lanes=1)
    return b.cast(made, Scalar.I64)


class _Ends:
    """A kernel over the states at one end of a layer, with a tile for each sequence."""

    def __init__(self, name: str, operation: Recurrence, lanes: int, model: MachineModel) -> None:
        self.operation, self.lanes = operation, lanes
        self.maker = KernelMaker(name)
        self.b = self.maker.builder
        self.values = ElementValues(self.maker, model)
        self.vector = LoopType(Scalar.F32, lanes)
        directions = len(operation.backward)
        self.direction, self.row = split_index(
            self.maker, self.b.tile, (directions, operation.batch)
        )

    def for_units(self, body: Move) -> None:
        """Run the body for each vector of units, with its first unit and number of valid lanes."""
        hidden = self.operation.hidden
        by_vectors(self.b, self.b.constant(hidden, I64), self.lanes, hidden, body)

    def scheduled(self) -> ScheduledKernel:
        """Return the kernel of all sequences."""
        return self.maker.scheduled(len(self.operation.backward) * self.operation.batch)


def start_kernel(
    operation: Recurrence, states: RecurrenceStates, lanes: int, model: MachineModel
) -> ScheduledKernel:
    """Return the kernel that writes the initial states."""
    ends = _Ends("recurrence_start", operation, lanes, model)
    maker, b = ends.maker, ends.b
    pairs = [(operation.initial, maker.written(states.state))]
    if "cell" in states.extra:
        pairs.append((operation.initial_cell, maker.written(states.extra["cell"])))
    at = states.offset(maker, ends.direction, ends.row)

    def write(unit: Operand, count: Operand | None) -> None:
        for element, buffer in pairs:
            value = b.constant(0, ends.vector)
            if element is not None:
                axes: Sequence[Operand] = [ends.direction, ends.row, unit]
                made = ends.values.value_of(element, axes, vector_axis=2, lanes=lanes, count=count)
                value = b.cast(made, Scalar.F32)
            b.store(buffer, b.add(at, unit), value)

    ends.for_units(write)
    return ends.scheduled()


def end_kernel(
    operation: Recurrence, states: RecurrenceStates, lanes: int, model: MachineModel
) -> ScheduledKernel | None:
    """Return the kernel that writes the last states; None if they are not needed."""
    ends = _Ends("recurrence_end", operation, lanes, model)
    maker, b = ends.maker, ends.b
    steps = maker.value(operation.steps)
    moment = b.mul(b.rem(steps, 2), maker.size(states.half))
    wanted = [
        (maker.written(output), maker.read(tensor), first)
        for output, tensor, first in (
            (operation.last, states.state, moment),
            (operation.last_cell, states.extra.get("cell"), b.index(0)),
        )
        if output is not None and tensor is not None
    ]
    if not wanted:
        return None
    at = states.offset(maker, ends.direction, ends.row)
    length = length_of(b, operation, ends.values, ends.row)
    count_of_steps = steps if length is None else b.least(steps, length)
    has_steps = b.compute(Op.GT, count_of_steps, 0)
    strides = strides_of((len(operation.backward), operation.batch, operation.hidden))

    def write(unit: Operand, count: Operand | None) -> None:
        for output, buffer, first in wanted:
            value = b.load(buffer, b.add(b.add(first, at), unit), lanes)
            value = b.select(has_steps, value, b.constant(0, ends.vector))
            target = sum_of_strides(maker, [ends.direction, ends.row, unit], strides)
            b.store(output, target, b.cast(value, output.scalar), count)

    ends.for_units(write)
    return ends.scheduled()
