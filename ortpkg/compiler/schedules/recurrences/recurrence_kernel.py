"""The kernel of a recurrent layer's steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from ortpkg.compiler.loop_ir.kernel import Buffer, Op, Value
from ortpkg.compiler.loop_ir.kernel_builder import Operand
from ortpkg.compiler.loop_ir.loop_types import LoopType, Scalar
from ortpkg.compiler.schedules.element_values import ElementValues
from ortpkg.compiler.schedules.even_parts import parts_count
from ortpkg.compiler.schedules.kernel_maker import KernelMaker, strides_of
from ortpkg.compiler.schedules.machine_model import MachineModel
from ortpkg.compiler.schedules.products.product_space import (
    RightPanels,
    split_index,
    sum_of_strides,
)
from ortpkg.compiler.schedules.products.product_steps import FloatSteps
from ortpkg.compiler.schedules.recurrences.recurrence_cells import gru_state, lstm_state
from ortpkg.compiler.schedules.recurrences.recurrence_states import RecurrenceStates, length_of
from ortpkg.compiler.schedules.recurrences.recurrence_tiling import RecurrenceTiling
from ortpkg.compiler.schedules.scheduled_kernel import ScheduledKernel
from ortpkg.compiler.tensor_ir.elements import Element
from ortpkg.compiler.tensor_ir.operations import Cell, Recurrence


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """Work of a tile: time, direction, sequences and panel, and offsets of the states.

    Attributes:
        direction: index of the direction.
        panel: index of the panel of units.
        first, end: range of the sequences.
        time: index of the time step.
        old, new: offsets of the states before and after the step in the states' buffer.
    """

    direction: Operand
    panel: Operand
    first: Value
    end: Value
    time: Value
    old: Value
    new: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class _Units:
    """One vector of units of one sequence.

    Attributes:
        row: index of the sequence in the batch.
        unit: index of the first unit.
        count: number of valid lanes; None for all.
        offset: offset in buffers of one state.
    """

    row: Value
    unit: Value
    count: int | None
    offset: Value


#: Computes the states of one vector of units from the sums of the gates.
_Finish = Callable[[_Step, _Units, Sequence[Value]], None]


class RecurrenceKernel:
    """Makes the kernel of a recurrent layer's steps, with recurrent weights in panels."""

    def __init__(
        self,
        operation: Recurrence,
        panels: RightPanels,
        states: RecurrenceStates,
        tiling: RecurrenceTiling,
        model: MachineModel,
    ) -> None:
        self._operation, self._panels, self._tiling = operation, panels, tiling
        self._maker = maker = KernelMaker("recurrence")
        self._b = maker.builder
        self._values = ElementValues(maker, model)
        self._vector = LoopType(Scalar.F32, tiling.lanes)
        self._weights = panels.stored.read(maker)
        self._inputs = maker.read(operation.inputs)
        self._output = maker.written(operation.output)
        self._states = states
        self._state = maker.written(states.state)
        self._extra = {name: maker.written(tensor) for name, tensor in states.extra.items()}

    def scheduled(self) -> ScheduledKernel:
        """Return the kernel of all steps."""
        b, operation, row_block = self._b, self._operation, self._tiling.row_block
        sizes = (
            len(operation.backward),
            parts_count(operation.hidden, self._tiling.width),
            parts_count(operation.batch, row_block),
        )
        wave, phases = prod(sizes, start=1), self._states.phases
        turn, index = split_index(self._maker, b.tile, (operation.steps * phases, wave))
        if wave != 1:
            # each wave begins where the one before ended, whose weights are in the cache
            is_forward = b.compute(Op.EQ, b.rem(b.index(turn), 2), 0)
            from_end = b.sub(b.sub(self._maker.value(wave), 1), index)
            index = b.select(is_forward, b.index(index), from_end)
        direction, panel, block = split_index(self._maker, index, sizes)
        number = b.div(b.index(turn), phases)
        first = b.mul(b.index(block), row_block)
        odd = b.rem(number, 2)
        half = self._states.half
        step = _Step(
            direction=direction,
            panel=panel,
            first=first,
            end=b.least(b.add(first, row_block), self._maker.value(operation.batch)),
            time=self._time(direction, number, self._maker.value(operation.steps)),
            old=b.mul(odd, self._maker.size(half)),
            new=b.mul(b.sub(1, odd), self._maker.size(half)),
        )
        self._advance(step, turn)
        return self._maker.scheduled(operation.steps * phases * wave, wave_tiles=wave)

    def _time(self, direction: Operand, index: Value, steps: Value) -> Value:
        """Return the time of a step: backward directions begin with the last one."""
        b, backward = self._b, self._operation.backward
        if not any(backward):
            return index
        reverse = b.sub(b.sub(steps, 1), index)
        if all(backward):
            return reverse
        is_backward = b.compute(Op.EQ, b.index(direction), backward.index(True))
        return b.select(is_backward, reverse, index)

    def _advance(self, step: _Step, turn: Operand) -> None:
        """Compute the new states of the tile's units, in two turns for a GRU."""
        b = self._b
        cell = self._operation.cell
        if cell is Cell.LSTM:
            self._phase(step, range(4), self._state, step.old, self._finish_lstm)
        elif cell is Cell.RNN:
            self._phase(step, range(1), self._state, step.old, self._finish_rnn)
        elif cell is Cell.GRU_RESET_AFTER:
            self._phase(step, range(3), self._state, step.old, self._finish_reset_after)
        else:
            with b.when(b.compute(Op.EQ, b.rem(b.index(turn), 2), 0)):
                self._phase(step, range(2), self._state, step.old, self._keep_gates)
            with b.otherwise():
                reset = self._extra["reset"]
                self._phase(step, range(2, 3), reset, b.index(0), self._finish_gru)

    # --- products ---------------------------------------------------------------------------------

    def _phase(
        self, step: _Step, gates: Sequence[int], source: Buffer, first: Value, finish: _Finish
    ) -> None:
        """Multiply states with the weights of some gates, and finish these gates."""

        def units(counts: Sequence[int | None]) -> None:
            first_unit = b.mul(b.index(step.panel), tiling.width)

            def group(row: Value, rows: int) -> None:
                at = self._states.offset(self._maker, step.direction, row)
                sums = self._summed(step, gates, source, b.add(first, at), rows)
                for row_number in range(rows):
                    for vector, count in enumerate(counts):
                        unit = b.add(first_unit, vector * tiling.lanes)
                        unit_offset = b.add(b.add(at, row_number * self._states.row_size), unit)
                        units = _Units(
                            row=b.add(row, row_number), unit=unit, count=count, offset=unit_offset
                        )
                        finish(step, units, sums[row_number][vector])

            self._row_groups(step, group)

        b, tiling = self._b, self._tiling
        whole, rest = divmod(self._operation.hidden, tiling.width)
        all_lanes: list[int | None] = [None] * tiling.vectors
        if not rest:
            units(all_lanes)
            return
        counts = [min(tiling.lanes, rest - at) for at in range(0, rest, tiling.lanes)]
        tail_lanes = [None if count == tiling.lanes else count for count in counts]
        if not whole:
            units(tail_lanes)
            return
        with b.when(b.compute(Op.LT, b.index(step.panel), whole)):
            units(all_lanes)
        with b.otherwise():
            units(tail_lanes)

    def _summed(
        self,
        step: _Step,
        gates: Sequence[int],
        source: Buffer,
        first: Value,
        rows: int,
    ) -> list[list[list[Value]]]:
        """Return the products' sums by row, vector and gate."""
        b, tiling, steps = self._b, self._tiling, FloatSteps()
        width, hidden = tiling.width, self._operation.hidden
        strides = [*self._panels.stored.batch, self._panels.panel]
        bases = [
            b.index(sum_of_strides(self._maker, [step.direction, gate, step.panel], strides))
            for gate in gates
        ]
        count = rows * tiling.vectors * len(gates)
        zeros = [b.constant(0, self._vector)] * count
        with b.loop(0, hidden, carried=zeros, hint="unit") as loop:
            along = b.mul(loop.index, width)
            weights = [
                steps.right(
                    b, self._weights, b.add(b.add(base, along), vector_offset), tiling.lanes, None
                )
                for vector_offset in range(0, width, tiling.lanes)
                for base in bases
            ]
            sums = list(loop.carried)
            for row in range(rows):
                state_index = b.add(b.add(first, row * self._states.row_size), loop.index)
                left = steps.left(b, source, state_index, tiling.lanes)
                for number, right in enumerate(weights):
                    vector_offset = row * len(weights) + number
                    sums[vector_offset] = steps.add(b, sums[vector_offset], left, right)
            loop.hand_on(*sums)
        made = iter(loop.results)
        return [[[next(made) for _ in gates] for _ in range(tiling.vectors)] for _ in range(rows)]

    def _row_groups(self, step: _Step, body: Callable[[Value, int], None]) -> None:
        """Run the body for groups of sequences, and for the rest one by one."""
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
        b, cells = self._b, self._extra["cell"]
        cell = b.load(cells, units.offset, self._tiling.lanes)
        gates = [
            self._with_input(step, units, gate, gate_sum) for gate, gate_sum in enumerate(sums)
        ]
        peepholes = [
            self._parameter(peephole, step, units) for peephole in self._operation.peepholes
        ]
        state, new_cell = lstm_state(b, self._activate, gates, cell, peepholes)
        b.store(cells, units.offset, self._if_active(step, units, new_cell, cell))
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
        """Store a GRU's update gate, and the reset state."""
        update, reset = (
            self._activate(0, self._with_input(step, units, gate, sums[gate])) for gate in (0, 1)
        )
        self._b.store(self._extra["update"], units.offset, update)
        old = self._old(step, units)
        self._b.store(self._extra["reset"], units.offset, self._b.mul(reset, old))

    def _finish_gru(self, step: _Step, units: _Units, sums: Sequence[Value]) -> None:
        b = self._b
        candidate = self._activate(1, self._with_input(step, units, 2, sums[0]))
        update = b.load(self._extra["update"], units.offset, self._tiling.lanes)
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
        """Return the inputs' part of a gate."""
        b, operation = self._b, self._operation
        gates, hidden = operation.cell.gate_count, operation.hidden
        strides = strides_of((len(operation.backward), operation.steps, operation.batch, gates,
                              hidden))  # fmt: skip
        at = sum_of_strides(
            self._maker, [step.direction, step.time, units.row, gate, units.unit], strides
        )
        return b.load(self._inputs, at, self._tiling.lanes, units.count)

    def _parameter(self, element: Element, step: _Step, units: _Units) -> Value:
        """Return a parameter over (direction, unit)."""
        made = self._values.value_of(
            element,
            [step.direction, units.unit],
            vector_axis=1,
            lanes=self._tiling.lanes,
            count=units.count,
        )
        return self._b.cast(made, Scalar.F32)

    # --- states -----------------------------------------------------------------------------------

    def _old(self, step: _Step, units: _Units) -> Value:
        return self._b.load(self._state, self._b.add(step.old, units.offset), self._tiling.lanes)

    def _put(self, step: _Step, units: _Units, state: Value) -> None:
        """Write a new state to the states and to the output."""
        b, operation = self._b, self._operation
        shown = state
        if operation.lengths is not None:
            shown = self._if_active(step, units, state, b.constant(0, self._vector))
            state = self._if_active(step, units, state, self._old(step, units))
        b.store(self._state, b.add(step.new, units.offset), state)
        strides = strides_of(
            (operation.steps, len(operation.backward), operation.batch, operation.hidden)
        )
        at = sum_of_strides(
            self._maker, [step.time, step.direction, units.row, units.unit], strides
        )
        b.store(self._output, at, b.cast(shown, operation.output.scalar), units.count)

    def _if_active(self, step: _Step, units: _Units, new: Value, otherwise: Value) -> Value:
        """Return the new value if the sequence has this step, else the other one."""
        length = self._length(units)
        if length is None:
            return new
        return self._b.select(self._b.compute(Op.LT, step.time, length), new, otherwise)

    def _length(self, units: _Units) -> Value | None:
        return length_of(self._b, self._operation, self._values, units.row)
