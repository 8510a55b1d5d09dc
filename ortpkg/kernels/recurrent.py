"""RNN, GRU and LSTM: one product for the inputs of all steps, then a small product per step.

Arrays inside run over (steps, batch, features). A sequence that is shorter than the batch's longest
keeps its state and puts out zeros once it has ended; in the reverse direction it starts where it
ends. The last states of a sequence of no steps are zeros, whatever its initial states are, as
onnxruntime has it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ortpkg.errors import quoted
from ortpkg.kernels.activations import Block
from ortpkg.kernels.blas_threads import held_to_one_thread
from ortpkg.kernels.element_types import FLOATS, widened
from ortpkg.kernels.kernel_registry import kernel
from ortpkg.kernels.matrix_product import matrix_product
from ortpkg.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor
from ortpkg.kernels.plain_recurrence import PlainRun, has_default_activations, plain_gru, plain_lstm
from ortpkg.kernels.recurrent_activations import recurrent_activations
from ortpkg.kernels.scratch import Slot, take_scratch

#: One step: (input part of the gates, states) → new states, the first of which is the output.
Step = Callable[[Tensor, tuple[Tensor, ...]], tuple[Tensor, ...]]
#: Steps of fewer multiplications take longer on two threads than on one.
_LEAST_SHARED_PRODUCTS = 2_000_000
_DIRECTIONS = {
    "forward": (False,),
    "foward": (False,),
    "reverse": (True,),
    "bidirectional": (False, True),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Direction:
    """One direction's parameters, widened: what a step needs besides its input.

    Attributes:
        weights: (gates · hidden, input).
        recurrence: (hidden, gates · hidden), transposed for the product with the state.
        input_bias, recurrent_bias: (gates · hidden,).
        peepholes: (3 · hidden,) or None (LSTM).
        activations: as the operator orders them.
        clip: bound on what goes into an activation, or None.
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
        """Elements of the state."""
        return int(self.recurrence.shape[0])

    def clipped(self, gates: Tensor) -> Tensor:
        """``gates`` within the bound, in place."""
        if self.clip is not None:
            np.clip(gates, -self.clip, self.clip, out=gates)
        return gates


def _run_direction(
    context: OpKernelContext,
    inputs: Tensor,
    states: tuple[Tensor, ...],
    step: Step,
    lengths: Tensor | None,
    reverse: bool,
    out: Tensor,
) -> tuple[Tensor, ...]:
    """Runs all steps; ``out`` (steps, batch, hidden) gets the outputs; returns the last states."""
    steps = inputs.shape[0]
    for t in reversed(range(steps)) if reverse else range(steps):
        context.check_cancelled()
        new = step(inputs[t], states)
        if lengths is None:
            states = new
            out[t] = new[0]
        else:
            active = (t < lengths)[:, None]
            states = tuple(
                np.where(active, fresh, old) for fresh, old in zip(new, states, strict=True)
            )
            out[t] = np.where(active, new[0], new[0].dtype.type(0))
    return states


def _check_shapes(
    x: Tensor, w: Tensor, r: Tensor, b: Tensor | None, gates: int, directions: int
) -> int:
    """The hidden size. ValueError where input and weights do not fit each other."""
    hidden: int = r.shape[-1]
    fits = (
        x.ndim == 3
        and w.shape == (directions, gates * hidden, x.shape[2])
        and r.shape == (directions, gates * hidden, hidden)
        and (b is None or b.shape == (directions, 2 * gates * hidden))
    )
    if not fits:
        shapes = f"X {x.shape}, W {w.shape}, R {r.shape}, B {None if b is None else b.shape}"
        raise ValueError(f"{shapes} do not fit {gates} gates in {directions} directions")
    return hidden


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cell:
    """What tells RNN, GRU and LSTM apart: gates, states, default activations, and how a step is
    made.
    """

    gates: int
    n_states: int
    activations: tuple[str, ...]
    make_step: Callable[[OpKernelInfo, Direction], Step]
    make_plain: Callable[[OpKernelInfo, Direction], PlainRun | None] = lambda _info, _direction: (
        None
    )

    def prepare(self, info: OpKernelInfo, direction: Direction) -> _Prepared:
        return _Prepared(
            direction, self.make_step(info, direction), self.make_plain(info, direction)
        )


class _Prepared(NamedTuple):
    """One direction, its step, and all its steps as one function where it is plain."""

    direction: Direction
    step: Step
    plain: PlainRun | None


def _directions(
    activations: list[list[Block]],
    clip: float | None,
    w: Tensor,
    r: Tensor,
    b: Tensor | None,
    p: Tensor | None,
) -> list[Direction]:
    """The parameters of each direction, laid out for the products."""
    directions = []
    for d, blocks in enumerate(activations):
        rows = w.shape[1]
        biases = np.zeros(2 * rows, widened(w[:1, :1]).dtype) if b is None else widened(b[d])
        directions.append(
            Direction(
                weights=widened(w[d]),
                recurrence=np.ascontiguousarray(widened(r[d]).T),
                input_bias=biases[:rows],
                recurrent_bias=biases[rows:],
                peepholes=None if p is None else widened(p[d]),
                activations=blocks,
                clip=clip,
            )
        )
    return directions


def _prepared_steps(
    info: OpKernelInfo, cell: _Cell, activations: list[list[Block]], clip: float | None
) -> list[_Prepared] | None:
    """Directions and steps laid out once, where all the parameters that the node has are
    constant.
    """
    values: list[Tensor | None] = []
    for slot in (1, 2, 3, 7):
        given = slot < len(info.node.inputs) and bool(info.node.inputs[slot])
        value = info.constant_input(slot) if given else None
        if given and value is None:
            return None
        values.append(value)
    w, r, b, p = values
    if (
        w is None
        or r is None
        or w.ndim != 3
        or r.ndim != 3
        or len(w) != len(activations)
        or len(r) != len(w)
    ):
        return None  # the run will say what does not fit
    return [cell.prepare(info, d) for d in _directions(activations, clip, w, r, b, p)]


def _recurrent(info: OpKernelInfo, cell: _Cell) -> Compute:
    name = str(info.attribute("direction", "forward"))
    if name not in _DIRECTIONS:
        raise ValueError(
            f"there is no direction {quoted(name)}: forward, reverse and bidirectional exist"
        )
    reversals = _DIRECTIONS[name]
    activations = recurrent_activations(info, cell.activations, len(reversals))
    batch_first, clip = bool(info.attribute("layout", 0)), info.attribute("clip")
    # of states: (batch, directions) or (directions, batch)
    order = (1, 0, 2) if batch_first else (0, 1, 2)
    prepared = _prepared_steps(info, cell, activations, clip)
    wanted = len(info.node.outputs)
    wanted_output = bool(info.node.outputs[0])

    def compute(
        context: OpKernelContext,
        x: Tensor,
        w: Tensor,
        r: Tensor,
        b: Tensor | None = None,
        lengths: Tensor | None = None,
        *rest: Tensor | None,
    ) -> Any:
        initial, peepholes = (*rest, None, None)[: cell.n_states], (*rest, None, None, None)[2]
        wide = widened(x).transpose(1, 0, 2) if batch_first and x.ndim == 3 else widened(x)
        hidden = _check_shapes(wide, w, r, b, cell.gates, len(reversals))
        steps, batch, _ = wide.shape
        _check_lengths(lengths, steps, batch)
        shape = (len(reversals), batch, hidden)
        rows_of_all = (cell.gates + len(reversals)) * steps + 2 * len(reversals) * cell.n_states
        context.check_allocation(rows_of_all * batch * hidden * wide.itemsize)
        starts = [_initial_state(state, shape, order, wide.dtype) for state in initial]
        is_final = wanted_output and not batch_first and x.dtype == wide.dtype
        y = (
            context.output(0, (steps, *shape), x.dtype)
            if is_final
            else np.empty((steps, *shape), wide.dtype)
        )
        lasts = [np.zeros(shape, wide.dtype) for _ in starts]
        made = prepared or [
            cell.prepare(info, d) for d in _directions(activations, clip, w, r, b, peepholes)
        ]
        rows = np.ascontiguousarray(wide).reshape(steps * batch, wide.shape[2])
        (projected,) = take_scratch(Slot.SHARED, ((steps * batch, cell.gates * hidden), wide.dtype))
        for at, (direction, step, plain) in enumerate(made if y.size else ()):
            _project(rows, direction, projected)
            inputs = projected.reshape(steps, batch, cell.gates * hidden)
            states = tuple(start[at] for start in starts)
            if plain is not None and lengths is None and states[0].flags.c_contiguous:
                sequence = range(steps - 1, -1, -1) if reversals[at] else range(steps)
                check = context.check_cancelled if context.is_watched else None
                products = batch * cell.gates * hidden * hidden
                with held_to_one_thread() if products < _LEAST_SHARED_PRODUCTS else nullcontext():
                    ends = plain(inputs, states, y[:, at], sequence, check)
            else:
                ends = _run_direction(
                    context, inputs, states, step, lengths, reversals[at], y[:, at]
                )
            for last, end in zip(lasts, ends, strict=True):
                last[at] = end
                if lengths is not None:
                    last[at, lengths == 0] = 0
        outputs = [
            y.transpose(2, 0, 1, 3) if batch_first else y,
            *(last.transpose(order) for last in lasts),
        ]
        results = tuple(
            value if is_final and slot == 0 else _output(context, slot, value, x.dtype)
            for slot, value in enumerate(outputs[:wanted])
        )
        return results if wanted > 1 else results[0]

    return compute


def _project(rows: Tensor, direction: Direction, out: Tensor) -> None:
    """The inputs' part of all gates of all steps."""
    matrix_product(rows, direction.weights.T, out)
    out += direction.input_bias


def _check_lengths(lengths: Tensor | None, steps: int, batch: int) -> None:
    if lengths is None:
        return
    if lengths.shape != (batch,) or (batch and not 0 <= lengths.min() <= lengths.max() <= steps):
        raise ValueError(
            f"sequence_lens of shape {lengths.shape} do not fit {batch} sequences of {steps} steps"
        )


def _initial_state(
    state: Tensor | None, shape: tuple[int, ...], order: tuple[int, ...], dtype: np.dtype[Any]
) -> Tensor:
    if state is None:
        return np.zeros(shape, dtype)
    if state.ndim != 3 or state.transpose(order).shape != shape:
        raise ValueError(
            f"an initial state of shape {state.shape} does not fit (directions, batch, hidden) ="
            f" {shape}"
        )
    return widened(state).transpose(order)


def _output(context: OpKernelContext, slot: int, value: Tensor, dtype: np.dtype[Any]) -> Tensor:
    out = context.output(slot, value.shape, dtype)
    np.copyto(out, value, casting="unsafe")
    return out


def _rnn_step(_info: OpKernelInfo, direction: Direction) -> Step:
    """Ht = f(Xt·Wᵀ + Ht-1·Rᵀ + Wb + Rb)."""
    (f,) = direction.activations

    def step(inputs: Tensor, states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        h = states[0] @ direction.recurrence
        h += direction.recurrent_bias
        h += inputs
        f(direction.clipped(h), h)
        return (h,)

    return step


def _plain_gru(info: OpKernelInfo, direction: Direction) -> PlainRun | None:
    if direction.clip is not None or not has_default_activations(direction.activations):
        return None
    reset_after = bool(info.attribute("linear_before_reset", 0))
    return plain_gru(direction.recurrence, direction.recurrent_bias, reset_after=reset_after)


def _gru_step(info: OpKernelInfo, direction: Direction) -> Step:
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
        return (candidate + z * (h - candidate),)

    return step


def _plain_lstm(info: OpKernelInfo, direction: Direction) -> PlainRun | None:
    is_plain = (
        direction.clip is None
        and direction.peepholes is None
        and not info.attribute("input_forget", 0)
    )
    if not is_plain or not has_default_activations(direction.activations):
        return None
    return plain_lstm(direction.recurrence, direction.recurrent_bias)


def _lstm_step(info: OpKernelInfo, direction: Direction) -> Step:
    """Gates i, o, f, c; peepholes i, o, f. ``input_forget`` couples the forget gate: f = 1 - i."""
    f, g, h_activation = direction.activations
    n, peepholes = direction.hidden, direction.peepholes
    coupled = bool(info.attribute("input_forget", 0))

    def step(inputs: Tensor, states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        h, c = states
        gates = h @ direction.recurrence
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


@kernel("RNN", since=(1, 7, 14, 22), types={"T": FLOATS})
def rnn(info: OpKernelInfo) -> Compute:
    return _recurrent(info, _Cell(gates=1, n_states=1, activations=("Tanh",), make_step=_rnn_step))


@kernel("GRU", since=(1, 3, 7, 14, 22), types={"T": FLOATS})
def gru(info: OpKernelInfo) -> Compute:
    return _recurrent(
        info,
        _Cell(
            gates=3,
            n_states=1,
            activations=("Sigmoid", "Tanh"),
            make_step=_gru_step,
            make_plain=_plain_gru,
        ),
    )


@kernel("LSTM", since=(1, 7, 14, 22), types={"T": FLOATS})
def lstm(info: OpKernelInfo) -> Compute:
    return _recurrent(
        info,
        _Cell(
            gates=4,
            n_states=2,
            activations=("Sigmoid", "Tanh", "Tanh"),
            make_step=_lstm_step,
            make_plain=_plain_lstm,
        ),
    )
