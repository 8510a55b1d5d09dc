"""How the next state of an RNN, a GRU or an LSTM is made of its gates, in registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ortpkg.codegen.loop_ir.kernel import Value
from ortpkg.codegen.loop_ir.kernel_builder import KernelBuilder

#: Applies an activation, by its place among the operation's.
Activate = Callable[[int, Value], Value]


def lstm_state(
    b: KernelBuilder,
    activate: Activate,
    gates: Sequence[Value],
    cell: Value,
    peepholes: Sequence[Value],
) -> tuple[Value, Value]:
    """The next state and cell, of the gates i, o, f, c before their activations."""
    taken, shown, kept, candidate = gates
    if peepholes:
        taken = b.fma(peepholes[0], cell, taken)
        kept = b.fma(peepholes[2], cell, kept)
    fresh = b.mul(activate(0, taken), activate(1, candidate))
    new_cell = b.fma(activate(0, kept), cell, fresh)
    if peepholes:
        shown = b.fma(peepholes[1], new_cell, shown)
    return b.mul(activate(0, shown), activate(2, new_cell)), new_cell


def gru_state(b: KernelBuilder, update: Value, candidate: Value, state: Value) -> Value:
    """The next state, of the update gate and the candidate after their activations."""
    return b.fma(update, b.sub(state, candidate), candidate)
