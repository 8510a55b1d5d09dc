"""One direction of a recurrent layer, and a step of it, for RNN, GRU and LSTM."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ortpkg.runtime.kernels.activations import Block
from ortpkg.runtime.kernels.matrix_product import product_in_blocks
from ortpkg.runtime.kernels.op_kernel import OpKernelContext, OpKernelInfo, Tensor

#: One step: (input part of the gates, states) → new states, the first of which is the output.
Step = Callable[[Tensor, tuple[Tensor, ...]], tuple[Tensor, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Direction:
    """Parameters of one direction, widened: all that a step needs besides its input.

    Attributes:
        weights: (gates · hidden, input).
        recurrence: (hidden, gates · hidden), transposed for the product with the state.
        input_bias, recurrent_bias: (gates · hidden,).
        peepholes: (3 · hidden,) or None (LSTM).
        activations: in the operator's order.
        clip: bound on the inputs of activations, or None.
    """

    weights: Tensor
    recurrence: Tensor
    input_bias: Tensor
    recurrent_bias: Tensor
    peepholes: Tensor | None
    activations: list[Block]
    clip: float | None

    @property
    def hidden(self) -> int:
        """Number of elements of the state."""
        return int(self.recurrence.shape[0])

    def project(self, rows: Tensor, out: Tensor) -> None:
        """Write the input part of all steps' gates into ``out`` (steps · batch, gates · hidden)."""
        product_in_blocks(rows, self.weights.T, out)
        out += self.input_bias

    def recur(self, hidden: Tensor) -> Tensor:
        """Return the product of the last output (batch, hidden) and the recurrent weights."""
        return np.asarray(hidden @ self.recurrence)

    def clipped(self, gates: Tensor) -> Tensor:
        """Clip ``gates`` to the bound in place, and return them."""
        if self.clip is not None:
            np.clip(gates, -self.clip, self.clip, out=gates)
        return gates


def rnn_step(_info: OpKernelInfo, direction: Direction) -> Step:
    """Ht = f(Xt·Wᵀ + Ht-1·Rᵀ + Wb + Rb)."""
    (f,) = direction.activations

    def step(inputs: Tensor, states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        h = states[0] @ direction.recurrence
        h += direction.recurrent_bias
        h += inputs
        f(direction.clipped(h), h)
        return (h,)

    return step


def gru_step(info: OpKernelInfo, direction: Direction) -> Step:
    """Gates z, r, h.

    ``linear_before_reset`` resets the product with the state instead of the state.
    """
    f, g = direction.activations
    n = direction.hidden
    reset_after = bool(info.attribute("linear_before_reset", 0))
    gate_recurrence = np.ascontiguousarray(direction.recurrence[:, : 2 * n])
    hidden_recurrence = np.ascontiguousarray(direction.recurrence[:, 2 * n :])
    gate_bias, hidden_bias = direction.recurrent_bias[: 2 * n], direction.recurrent_bias[2 * n :]

    def step(inputs: Tensor, states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        (h,) = states
        gates = h @ gate_recurrence
        gates += gate_bias
        gates += inputs[:, : 2 * n]
        f(direction.clipped(gates), gates)
        z, r = gates[:, :n], gates[:, n:]
        if reset_after:
            candidate = (h @ hidden_recurrence + hidden_bias) * r
        else:
            candidate = (r * h) @ hidden_recurrence + hidden_bias
        candidate += inputs[:, 2 * n :]
        g(direction.clipped(candidate), candidate)
        return ((1 - z) * candidate + z * h,)

    return step


def lstm_step(info: OpKernelInfo, direction: Direction) -> Step:
    """Gates i, o, f, c; peepholes i, o, f. ``input_forget`` couples the forget gate: f = 1 - i."""
    f, g, h_activation = direction.activations
    n, peepholes = direction.hidden, direction.peepholes
    coupled = bool(info.attribute("input_forget", 0))

    def step(inputs: Tensor, states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        h, c = states
        gates = direction.recur(h)
        gates += direction.recurrent_bias
        gates += inputs
        i, o, forget, cell = (
            gates[:, :n],
            gates[:, n : 2 * n],
            gates[:, 2 * n : 3 * n],
            gates[:, 3 * n :],
        )
        if peepholes is None:
            direction.clipped(gates)
            f(gates[:, : 3 * n], gates[:, : 3 * n])
        else:
            i += peepholes[:n] * c
            forget += peepholes[2 * n :] * c
            direction.clipped(gates[:, :n])
            direction.clipped(gates[:, 2 * n :])
            f(i, i)
            f(forget, forget)
        g(cell, cell)
        new_cell = (1 - i if coupled else forget) * c
        new_cell += i * cell
        if peepholes is not None:
            o += peepholes[n : 2 * n] * new_cell
            f(direction.clipped(o), o)
        new_hidden = np.empty_like(new_cell)
        h_activation(new_cell, new_hidden)
        new_hidden *= o
        return new_hidden, new_cell

    return step


def run_steps(
    context: OpKernelContext,
    inputs: Tensor,
    states: tuple[Tensor, ...],
    step: Step,
    lengths: Tensor | None,
    reverse: bool,
    out: Tensor,
) -> tuple[Tensor, ...]:
    """Run all steps and return the last states; ``out`` (steps, batch, hidden) gets the outputs."""
    steps = inputs.shape[0]
    if lengths is not None:
        return _run_steps_of_lengths(context, inputs, states, step, lengths, reverse, out)
    for t in reversed(range(steps)) if reverse else range(steps):
        context.check_cancelled()
        states = step(inputs[t], states)
        out[t] = states[0]
    return states


def _run_steps_of_lengths(
    context: OpKernelContext,
    inputs: Tensor,
    states: tuple[Tensor, ...],
    step: Step,
    lengths: Tensor,
    reverse: bool,
    out: Tensor,
) -> tuple[Tensor, ...]:
    """Run all steps of sequences of different lengths, which all begin at the first step.

    The output of a sequence that has ended counts as zeros in the next step, so that the scale of a
    quantized product depends on running sequences only.
    """
    steps, batch = inputs.shape[:2]
    sequences = np.arange(batch)
    last_states = states
    for index in range(steps):
        context.check_cancelled()
        is_running = index < lengths
        active = is_running[:, None]
        times = (
            np.where(is_running, lengths - 1 - index, index) if reverse else np.full(batch, index)
        )
        new = step(inputs[times, sequences], states)
        last_states = tuple(
            np.where(active, fresh, old) for fresh, old in zip(new, last_states, strict=True)
        )
        hidden = np.where(active, new[0], new[0].dtype.type(0))
        out[times, sequences] = hidden
        states = (hidden, *last_states[1:])
    return last_states
