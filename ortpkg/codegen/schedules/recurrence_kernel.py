"""The kernel of a recurrent layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

from ortpkg.codegen.loop_ir.kernel import Buffer, Op, Value
from ortpkg.codegen.loop_ir.kernel_builder import Operand
from ortpkg.codegen.loop_ir.loop_types import LoopType, Scalar
from ortpkg.codegen.schedules.element_values import ElementValues
from ortpkg.codegen.schedules.kernel_maker import KernelMaker, strides_of
from ortpkg.codegen.schedules.machine_model import MachineModel
from ortpkg.codegen.schedules.product_space import (
    RightPanels,
    parts_count,
    split_place,
    sum_of_strides,
)
from ortpkg.codegen.schedules.product_steps import FloatSteps
from ortpkg.codegen.schedules.recurrence_cells import gru_state, lstm_state
from ortpkg.codegen.schedules.recurrence_tiling import RecurrenceTiling
from ortpkg.codegen.schedules.scheduled_kernel import ScheduledKernel
from ortpkg.codegen.tensor_ir.elements import Element
from ortpkg.codegen.tensor_ir.operations import Cell, Recurrence


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """Where a step of a tile stands: its time, its sequences, its states in scratch memory."""

    direction: Operand
    first: Value
    end: Value
    time: Value
    old: Value
    new: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class _Units:
    """One vector of units of one sequence.

    Attributes:
        row: the sequence's number in the batch.
        unit: the first one's number.
        count: how many of the lanes are there; None: all.
        place: where they lie in scratch buffers of one state.
    """

    row: Value
    unit: Value
    count: int | None
    place: Value


#: What is done with the sums of the gates for one vector of units.
_Finish = Callable[[_Step, _Units, Sequence[Value]], None]


class RecurrenceKernel:
    """Makes the kernel of a recurrent layer, whose recurrent weights lie in panels."""

    def __init__(
        self,
        operation: Recurrence,
        panels: RightPanels,
        tiling: RecurrenceTiling,
        model: MachineModel,
    ) -> None:
        self._operation, self._panels, self._tiling = operation, panels, tiling
        self._maker = maker = KernelMaker("recurrence")
        self._b = b = maker.builder
        self._values = ElementValues(maker, model)
        self._vector = LoopType(Scalar.F32, tiling.lanes)
        self._weights = panels.stored.read(maker)
        self._inputs = maker.read(operation.inputs)
        self._output = maker.written(operation.output)
        self._row_size = -(-operation.hidden // tiling.width) * tiling.width
        self._state_size = tiling.row_block * self._row_size
        self._state = b.scratch("state", Scalar.F32, 2 * self._state_size)
        kept = {Cell.LSTM: ("cell",), Cell.GRU: ("update", "reset")}.get(operation.cell, ())
        self._kept = {name: b.scratch(name, Scalar.F32, self._state_size) for name in kept}

    def scheduled(self) -> ScheduledKernel:
        """The kernel."""
        b, maker, operation = self._b, self._maker, self._operation
        blocks = parts_count(operation.batch, self._tiling.row_block)
        sizes = (len(operation.backward), blocks)
        direction, block = split_place(maker, b.tile, sizes)
        first = b.mul(b.index(block), self._tiling.row_block)
        end = b.least(b.add(first, self._tiling.row_block), maker.value(operation.batch))
        steps = maker.value(operation.steps)
        states = [b.index(0), b.index(self._state_size)]
        start = _Step(
            direction=direction, first=first, end=end, time=steps, old=states[0], new=states[1]
        )
        self._start(start)
        with b.loop(0, steps, carried=states, hint="step", may_stop=True) as loop:
            old, new = loop.carried
            time = self._time(direction, loop.index, steps)
            step = replace(start, time=time, old=old, new=new)
            self._advance(step)
            loop.hand_on(new, old)
        self._end(replace(start, old=loop.results[0]))
        return maker.scheduled(prod(sizes, start=1))

    def _time(self, direction: Operand, index: Value, steps: Value) -> Value:
        """The time of a step: backward directions begin with the last one."""
        b, backward = self._b, self._operation.backward
        if not any(backward):
            return index
        reverse = b.sub(b.sub(steps, 1), index)
        if all(backward):
            return reverse
        is_backward = b.compute(Op.EQ, b.index(direction), backward.index(True))
        return b.select(is_backward, reverse, index)

    def _advance(self, step: _Step) -> None:
        """Makes the new states of the tile's sequences."""
        cell = self._operation.cell
        if cell is Cell.LSTM:
            self._phase(step, range(4), self._state, step.old, self._finish_lstm)
        elif cell is Cell.RNN:
            self._phase(step, range(1), self._state, step.old, self._finish_rnn)
        elif cell is Cell.GRU_RESET_AFTER:
            self._phase(step, range(3), self._state, step.old, self._finish_reset_after)
        else:
            self._phase(step, range(2), self._state, step.old, self._keep_gates)
            none = self._b.index(0)
            self._phase(step, range(2, 3), self._kept["reset"], none, self._finish_gru)

    # --- products ---------------------------------------------------------------------------------

    def _phase(
        self, step: _Step, gates: Sequence[int], source: Buffer, first: Value, finish: _Finish
    ) -> None:
        """Multiplies rows of scratch memory with the weights of some gates, and finishes these."""

        def panel(number: Operand, counts: Sequence[int | None]) -> None:
            def group(row: Value, rows: int) -> None:
                at = b.mul(b.sub(row, step.first), self._row_size)
                sums = self._summed(step, gates, number, source, b.add(first, at), rows)
                for place in range(rows):
                    for vector, count in enumerate(counts):
                        unit = b.add(b.mul(b.index(number), self._tiling.width),
                                     vector * self._tiling.lanes)  # fmt: skip
                        own = b.add(b.add(at, place * self._row_size), unit)
                        units = _Units(row=b.add(row, place), unit=unit, count=count, place=own)
                        finish(step, units, sums[place][vector])

            self._row_groups(step, group)

        b = self._b
        # each step begins where the one before has ended, of which the weights are in the cache
        self._by_panels(panel, b.compute(Op.EQ, step.old, 0))

    def _summed(
        self,
        step: _Step,
        gates: Sequence[int],
        panel: Operand,
        source: Buffer,
        first: Value,
        rows: int,
    ) -> list[list[list[Value]]]:
        """The products' sums by row, vector and gate."""
        b, tiling, steps = self._b, self._tiling, FloatSteps()
        width, hidden = tiling.width, self._operation.hidden
        strides = [*self._panels.stored.batch, self._panels.panel]
        bases = [
            b.index(sum_of_strides(self._maker, [step.direction, gate, panel], strides))
            for gate in gates
        ]
        count = rows * tiling.vectors * len(gates)
        zeros = [b.constant(0, self._vector)] * count
        with b.loop(0, hidden, carried=zeros, hint="unit") as loop:
            along = b.mul(loop.index, width)
            weights = [
                steps.right(b, self._weights, b.add(b.add(base, along), at), tiling.lanes, None)
                for at in range(0, width, tiling.lanes)
                for base in bases
            ]
            sums = list(loop.carried)
            for row in range(rows):
                place = b.add(b.add(first, row * self._row_size), loop.index)
                left = steps.left(b, source, place, tiling.lanes)
                for number, right in enumerate(weights):
                    at = row * len(weights) + number
                    sums[at] = steps.add(b, sums[at], left, right)
            loop.hand_on(*sums)
        made = iter(loop.results)
        return [[[next(made) for _ in gates] for _ in range(tiling.vectors)] for _ in range(rows)]

    def _by_panels(
        self, body: Callable[[Operand, Sequence[int | None]], None], is_forward: Value | None = None
    ) -> None:
        """Does something for each panel of units, of which so many are there in each vector."""
        b, width, lanes = self._b, self._tiling.width, self._tiling.lanes
        whole, rest = divmod(self._operation.hidden, width)
        if whole:
            with b.loop(0, whole, hint="panel") as panel:
                number = panel.index
                if is_forward is not None:
                    number = b.select(is_forward, number, b.sub(whole - 1, number))
                body(number, [None] * self._tiling.vectors)
        if rest:
            counts = [min(lanes, rest - first) for first in range(0, rest, lanes)]
            body(whole, [None if count == lanes else count for count in counts])

    def _row_groups(self, step: _Step, body: Callable[[Value, int], None]) -> None:
        """Does something for as many sequences at once as fit, and for the rest one by one."""
        b, rows, batch = self._b, self._tiling.rows, self._operation.batch
        if rows == 1:
            with b.loop(step.first, step.end, hint="row") as row:
                body(row.index, 1)
            return
        whole = b.sub(step.end, b.compute(Op.REM, b.sub(step.end, step.first), rows))
        with b.loop(step.first, whole, rows, hint="row") as row:
            body(row.index, rows)
        if not isinstance(batch, int) or batch % rows:
            with b.loop(whole, step.end, hint="row") as row:
                body(row.index, 1)

    # --- gates ------------------------------------------------------------------------------------

    def _finish_rnn(self, step: _Step, units: _Units, sums: Sequence[Value]) -> None:
        made = self._activate(0, self._with_input(step, units, 0, sums[0]))
        self._put(step, units, made)

    def _finish_lstm(self, step: _Step, units: _Units, sums: Sequence[Value]) -> None:
        b, cells = self._b, self._kept["cell"]
        cell = b.load(cells, units.place, self._tiling.lanes)
        gates = [self._with_input(step, units, gate, each) for gate, each in enumerate(sums)]
        peepholes = [self._parameter(each, step, units) for each in self._operation.peepholes]
        state, new_cell = lstm_state(b, self._activate, gates, cell, peepholes)
        b.store(cells, units.place, self._if_active(step, units, new_cell, cell))
        self._put(step, units, state)

    def _finish_reset_after(self, step: _Step, units: _Units, sums: Sequence[Value]) -> None:
        b = self._b
        update, reset = (
            self._activate(0, self._with_input(step, units, gate, sums[gate])) for gate in (0, 1)
        )
        late = sums[2]
        if self._operation.late_bias is not None:
            late = b.add(late, self._parameter(self._operation.late_bias, step, units))
        candidate = b.fma(reset, late, self._input(step, units, 2))
        old = self._old(step, units)
        self._put(step, units, gru_state(b, update, self._activate(1, candidate), old))

    def _keep_gates(self, step: _Step, units: _Units, sums: Sequence[Value]) -> None:
        """Keeps a GRU's update gate, and the state that is reset."""
        update, reset = (
            self._activate(0, self._with_input(step, units, gate, sums[gate])) for gate in (0, 1)
        )
        self._b.store(self._kept["update"], units.place, update)
        old = self._old(step, units)
        self._b.store(self._kept["reset"], units.place, self._b.mul(reset, old))

    def _finish_gru(self, step: _Step, units: _Units, sums: Sequence[Value]) -> None:
        b = self._b
        candidate = self._activate(1, self._with_input(step, units, 2, sums[0]))
        update = b.load(self._kept["update"], units.place, self._tiling.lanes)
        self._put(step, units, gru_state(b, update, candidate, self._old(step, units)))

    def _activate(self, number: int, value: Value) -> Value:
        return self._values.value_of(
            self._operation.activations[number],
            [],
            vector_axis=None,
            lanes=self._tiling.lanes,
            made=value,
        )

    def _with_input(self, step: _Step, units: _Units, gate: int, value: Value) -> Value:
        return self._b.add(value, self._input(step, units, gate))

    def _input(self, step: _Step, units: _Units, gate: int) -> Value:
        """The inputs' part of a gate."""
        b, operation = self._b, self._operation
        gates, hidden = operation.cell.gate_count, operation.hidden
        strides = strides_of((len(operation.backward), operation.steps, operation.batch, gates,
                              hidden))  # fmt: skip
        at = sum_of_strides(
            self._maker, [step.direction, step.time, units.row, gate, units.unit], strides
        )
        return b.load(self._inputs, at, self._tiling.lanes, units.count)

    def _parameter(self, element: Element, step: _Step, units: _Units) -> Value:
        """A parameter over (direction, unit)."""
        axes = [step.direction, units.unit]
        return self._element(element, axes, units.count)

    def _element(self, element: Element, axes: Sequence[Operand], count: int | None) -> Value:
        made = self._values.value_of(
            element, axes, vector_axis=len(axes) - 1, lanes=self._tiling.lanes, count=count
        )
        return self._b.cast(made, Scalar.F32)

    # --- states -----------------------------------------------------------------------------------

    def _old(self, step: _Step, units: _Units) -> Value:
        return self._b.load(self._state, self._b.add(step.old, units.place), self._tiling.lanes)

    def _put(self, step: _Step, units: _Units, state: Value) -> None:
        """Writes a new state to scratch memory and to the output."""
        b, operation = self._b, self._operation
        shown = state
        if operation.lengths is not None:
            shown = self._if_active(step, units, state, b.constant(0, self._vector))
            state = self._if_active(step, units, state, self._old(step, units))
        b.store(self._state, b.add(step.new, units.place), state)
        strides = strides_of(
            (operation.steps, len(operation.backward), operation.batch, operation.hidden)
        )
        at = sum_of_strides(
            self._maker, [step.time, step.direction, units.row, units.unit], strides
        )
        b.store(self._output, at, b.cast(shown, operation.output.scalar), units.count)

    def _if_active(self, step: _Step, units: _Units, new: Value, otherwise: Value) -> Value:
        """The new value where the sequence has this step."""
        length = self._length(units)
        if length is None:
            return new
        return self._b.select(self._b.compute(Op.LT, step.time, length), new, otherwise)

    def _length(self, units: _Units) -> Value | None:
        lengths = self._operation.lengths
        if lengths is None:
            return None
        made = self._values.value_of(lengths, [units.row], vector_axis=None, lanes=1)
        return self._b.cast(made, Scalar.I64)

    def _start(self, step: _Step) -> None:
        """Writes the initial states to scratch memory."""
        operation, b = self._operation, self._b
        pairs = [(operation.initial, self._state)]
        if "cell" in self._kept:
            pairs.append((operation.initial_cell, self._kept["cell"]))

        def write(units: _Units) -> None:
            for element, buffer in pairs:
                value = b.constant(0, self._vector)
                if element is not None:
                    axes = [step.direction, units.row, units.unit]
                    value = self._element(element, axes, units.count)
                b.store(buffer, units.place, value)

        self._for_units(step, write)

    def _end(self, step: _Step) -> None:
        """Writes the last states, of which the first one lies where the step's old one does."""
        operation, b = self._operation, self._b
        written: list[tuple[Buffer, Buffer, Value]] = []
        if operation.last is not None:
            written.append((self._maker.written(operation.last), self._state, step.old))
        if operation.last_cell is not None:
            output = self._maker.written(operation.last_cell)
            written.append((output, self._kept["cell"], b.index(0)))
        strides = strides_of((len(operation.backward), operation.batch, operation.hidden))

        def write(units: _Units) -> None:
            length = self._length(units)
            count = step.time if length is None else b.least(step.time, length)
            for output, buffer, first in written:
                value = b.load(buffer, b.add(first, units.place), self._tiling.lanes)
                zero = b.constant(0, self._vector)
                value = b.select(b.compute(Op.GT, count, 0), value, zero)
                axes = [step.direction, units.row, units.unit]
                at = sum_of_strides(self._maker, axes, strides)
                b.store(output, at, b.cast(value, output.scalar), units.count)

        if written:
            self._for_units(step, write)

    def _for_units(self, step: _Step, body: Callable[[_Units], None]) -> None:
        """Does something for each vector of units of each sequence."""
        b, lanes = self._b, self._tiling.lanes

        def panel(number: Operand, counts: Sequence[int | None]) -> None:
            for vector, count in enumerate(counts):
                unit = b.add(b.mul(b.index(number), self._tiling.width), vector * lanes)
                at = b.add(b.mul(b.sub(row.index, step.first), self._row_size), unit)
                body(_Units(row=row.index, unit=unit, count=count, place=at))

        with b.loop(step.first, step.end, hint="row") as row:
            self._by_panels(panel)
