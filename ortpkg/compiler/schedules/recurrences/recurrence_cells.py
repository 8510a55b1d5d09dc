"""Computes the next state of an LSTM or a GRU from its gates, in registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ortpkg.compiler.loop_ir.kernel import Value
from ortpkg.compiler.loop_ir.kernel_builder import KernelBuilder

#: Applies an activation, by its index among the operation's.
Activate = Callable[[int, Value], Value]


def lstm_state(
    b: KernelBuilder,
    activate: Activate,
    gates: Sequence[Value],
    cell: Value,
    peepholes: Sequence[Value],
) -> tuple[Value, Value]:
    """Return the next state and cell, from the gates i, o, f, c before their activations."""
    input_gate, output_gate, forget_gate, candidate = gates
    if peepholes:
        input_gate = b.fma(peepholes[0], cell, input_gate)
        forget_gate = b.fma(peepholes[2], cell, forget_gate)
    fresh = b.mul(activate(0, input_gate), activate(1, candidate))
    new_cell = b.fma(activate(0, forget_gate), cell, fresh)
    if peepholes:
        output_gate = b.fma(peepholes[1], new_cell, output_gate)
    return b.mul(activate(0, output_gate), activate(2, new_cell)), new_cell


def gru_state(b: KernelBuilder, update: Value, candidate: Value, state: Value) -> Value:
    """Return the next state, from the update gate and the candidate after their activations.

    One product fewer, candidate + update · (state - candidate), overflows where this does not.
    """
    rest = b.sub(b.constant(1, update.type), update)
    return b.fma(update, state, b.mul(rest, candidate))
