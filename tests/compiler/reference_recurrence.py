"""What the steps of a recurrent layer compute, by numpy, in double precision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ortpkg.compiler.tensor_ir.elements import Element
from ortpkg.compiler.tensor_ir.operations import Cell, Recurrence

Array = npt.NDArray[Any]


class ValueOf(Protocol):
    """Computes an element over axes."""

    def __call__(self, element: Element, axes: Sequence[int], made: Array | None = None) -> Array:
        """The element at each place of the axes."""
        ...


class RecurrenceRun:
    """One run of an operation."""

    def __init__(self, operation: Recurrence, value: ValueOf, steps: int, batch: int) -> None:
        self._operation, self._value = operation, value
        self._steps, self._batch = steps, batch

    def outputs(self, inputs: Array) -> tuple[Array, Array, Array]:
        """All states, the last ones and the last cells, of (directions, steps, batch, units)."""
        operation, steps, batch = self._operation, self._steps, self._batch
        shape = (len(operation.backward), batch, operation.hidden)
        states, cells = (self._states(each, shape)
                         for each in (operation.initial, operation.initial_cell))  # fmt: skip
        lengths = np.full(batch, steps)
        if operation.lengths is not None:
            lengths = self._value(operation.lengths, (batch,))
        made = np.zeros((steps, *shape))
        for direction, backward in enumerate(operation.backward):
            for time in reversed(range(steps)) if backward else range(steps):
                active = (time < lengths)[:, None]
                new = self._step(
                    direction, inputs[direction, time], states[direction], cells[direction]
                )
                made[time, direction] = np.where(active, new[0], 0)
                states[direction] = np.where(active, new[0], states[direction])
                cells[direction] = np.where(active, new[1], cells[direction])
        for each in (states, cells):
            each[:, np.minimum(lengths, steps) <= 0] = 0
        return made, states, cells

    def _states(self, element: Element | None, shape: Sequence[int]) -> Array:
        if element is None:
            return np.zeros(shape)
        return self._value(element, shape).astype(np.float64)

    def _step(
        self, direction: int, inputs: Array, state: Array, cell: Array
    ) -> tuple[Array, Array]:
        """The new state and cell of one direction."""
        operation, hidden = self._operation, self._operation.hidden
        gates = operation.cell.gate_count
        weights = self._value(
            operation.recurrence, (len(operation.backward), gates, hidden, hidden)
        )[direction].astype(np.float64)
        x = [inputs[:, gate * hidden : (gate + 1) * hidden] for gate in range(gates)]
        if operation.cell is Cell.RNN:
            return self._activated(0, x[0] + state @ weights[0]), cell
        if operation.cell is Cell.LSTM:
            return self._lstm(direction, x, [state @ each for each in weights], cell)
        update, reset = (self._activated(0, x[gate] + state @ weights[gate]) for gate in (0, 1))
        if operation.cell is Cell.GRU:
            late = (reset * state) @ weights[2]
        else:
            late = reset * (state @ weights[2] + self._parameter(operation.late_bias, direction))
        candidate = self._activated(1, x[2] + late)
        return update * state + (1 - update) * candidate, cell

    def _lstm(
        self, direction: int, x: Sequence[Array], r: Sequence[Array], cell: Array
    ) -> tuple[Array, Array]:
        p = [self._parameter(each, direction) for each in self._operation.peepholes] or [
            np.zeros(cell.shape[-1])
        ] * 3
        taken = self._activated(0, x[0] + r[0] + p[0] * cell)
        kept = self._activated(0, x[2] + r[2] + p[2] * cell)
        made = kept * cell + taken * self._activated(1, x[3] + r[3])
        shown = self._activated(0, x[1] + r[1] + p[1] * made)
        return shown * self._activated(2, made), made

    def _activated(self, number: int, x: Array) -> Array:
        wide = x.astype(np.float32)
        return self._value(self._operation.activations[number], wide.shape, wide).astype(np.float64)

    def _parameter(self, element: Element | None, direction: int) -> Array:
        shape = (len(self._operation.backward), self._operation.hidden)
        made: Array = self._states(element, shape)[direction]
        return made
