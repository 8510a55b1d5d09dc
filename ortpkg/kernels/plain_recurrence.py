"""LSTM and GRU with default activations and nothing else: no temporaries, few calls.

The sigmoid is taken as 0.5 · tanh(0.5 · x) + 0.5, so that one call does for all gates; the inner
0.5 is put into the gates' rows of the weights and biases beforehand, which is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ortpkg.kernels.activations import Block, tanh_block
from ortpkg.kernels.matrix_product import matrix_product
from ortpkg.kernels.op_kernel import Tensor
from ortpkg.kernels.special_functions import sigmoid_block

#: inputs (steps, batch, gates · hidden), states (batch, hidden), out (steps, batch, hidden), the
#: steps in order, what to call before each → the last states.
PlainRun = Callable[
    [Tensor, tuple[Tensor, ...], Tensor, Sequence[int], Callable[[], None] | None],
    tuple[Tensor, ...],
]


def has_default_activations(blocks: Sequence[Block]) -> bool:
    """Whether the gates' function is the sigmoid and all others are tanh."""
    return blocks[0] is sigmoid_block and all(block is tanh_block for block in blocks[1:])


def _multiplier(batch: int) -> Callable[[Tensor, Tensor, Tensor], object]:
    """The product of a state with the recurrence: one row needs no cutting into panels."""
    return np.matmul if batch == 1 else matrix_product


def plain_lstm(recurrence: Tensor, recurrent_bias: Tensor) -> PlainRun:
    """Gates i, o, f, c. ``recurrence`` is (hidden, 4 · hidden)."""
    n = len(recurrence)
    half = recurrence.dtype.type(0.5)
    scaled = recurrence.copy()
    scaled[:, : 3 * n] *= half

    def run(
        inputs: Tensor,
        states: tuple[Tensor, ...],
        out: Tensor,
        order: Sequence[int],
        check: Callable[[], None] | None,
    ) -> tuple[Tensor, ...]:
        inputs += recurrent_bias
        inputs[..., : 3 * n] *= half
        h, c = states[0], states[1].copy()
        batch = len(c)
        gates, term = np.empty((batch, 4 * n), c.dtype), np.empty_like(c)
        i, o, f, g = (gates[:, start : start + n] for start in range(0, 4 * n, n))
        sigmoids = gates[:, : 3 * n]
        multiply, add, tanh, matmul = np.multiply, np.add, np.tanh, _multiplier(batch)
        for t in order:
            if check is not None:
                check()
            matmul(h, scaled, gates)
            add(gates, inputs[t], gates)
            tanh(gates, gates)
            multiply(sigmoids, half, sigmoids)
            add(sigmoids, half, sigmoids)
            multiply(c, f, c)
            multiply(i, g, term)
            add(c, term, c)
            h = out[t]
            tanh(c, h)
            multiply(h, o, h)
        return h, c

    return run


def plain_gru(recurrence: Tensor, recurrent_bias: Tensor, *, reset_after: bool) -> PlainRun:
    """Gates z, r, h. ``recurrence`` is (hidden, 3 · hidden)."""
    n = len(recurrence)
    half = recurrence.dtype.type(0.5)
    scaled = recurrence.copy()
    scaled[:, : 2 * n] *= half
    of_gates = scaled if reset_after else np.ascontiguousarray(scaled[:, : 2 * n])
    of_candidate = None if reset_after else np.ascontiguousarray(scaled[:, 2 * n :])
    early_bias = recurrent_bias.copy()  # of what is added to the inputs before the steps
    late_bias = recurrent_bias[2 * n :]
    if reset_after:
        early_bias[2 * n :] = 0

    def run(
        inputs: Tensor,
        states: tuple[Tensor, ...],
        out: Tensor,
        order: Sequence[int],
        check: Callable[[], None] | None,
    ) -> tuple[Tensor, ...]:
        inputs += early_bias
        inputs[..., : 2 * n] *= half
        (h,) = states
        batch = len(h)
        gates, candidate = (
            np.empty((batch, of_gates.shape[1]), h.dtype),
            np.empty((batch, n), h.dtype),
        )
        sigmoids, z, r = gates[:, : 2 * n], gates[:, :n], gates[:, n : 2 * n]
        multiply, add, subtract, tanh, matmul = (
            np.multiply,
            np.add,
            np.subtract,
            np.tanh,
            _multiplier(batch),
        )
        for t in order:
            if check is not None:
                check()
            matmul(h, of_gates, gates)
            add(sigmoids, inputs[t, :, : 2 * n], sigmoids)
            tanh(sigmoids, sigmoids)
            multiply(sigmoids, half, sigmoids)
            add(sigmoids, half, sigmoids)
            if of_candidate is None:
                add(gates[:, 2 * n :], late_bias, candidate)
                multiply(candidate, r, candidate)
            else:
                multiply(r, h, r)
                matmul(r, of_candidate, candidate)
            add(candidate, inputs[t, :, 2 * n :], candidate)
            tanh(candidate, candidate)
            new = out[t]
            subtract(h, candidate, new)
            multiply(new, z, new)
            add(new, candidate, new)
            h = new
        return (h,)

    return run
