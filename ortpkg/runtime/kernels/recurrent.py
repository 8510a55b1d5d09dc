"""RNN, GRU, LSTM, DynamicQuantizeLSTM: one product for all steps' inputs, then a small one a step.

Arrays inside are (steps, batch, features). A sequence that is shorter than the batch's longest
keeps its state and outputs zeros once it has ended; in the reverse direction it starts at its end.
The last states of a sequence of no steps are zeros for any initial state, as in onnxruntime.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ortpkg.foundations.errors import quoted
from ortpkg.runtime.kernels.activations import Block
from ortpkg.runtime.kernels.blas_threads import LEAST_SHARED_PRODUCTS, call_held_to_one_thread
from ortpkg.runtime.kernels.element_types import FLOATS, compute_dtype, widened, widened_nbytes
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor
from ortpkg.runtime.kernels.quantization import BYTES
from ortpkg.runtime.kernels.quantized_recurrence import CentredWeights
from ortpkg.runtime.kernels.recurrent_activations import recurrent_activations
from ortpkg.runtime.kernels.recurrent_steps import (
    Direction,
    Step,
    gru_step,
    lstm_step,
    rnn_step,
    run_steps,
)

_DIRECTIONS = {
    "forward": (False,),
    "foward": (False,),
    "reverse": (True,),
    "bidirectional": (False, True),
}


def _check_shapes(
    x: Tensor, w: Tensor, r: Tensor, b: Tensor | None, gates: int, directions: int
) -> int:
    """Return the hidden size. Raises ValueError if input and weights do not fit each other."""
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
    """Traits of RNN, GRU or LSTM: gates, states, activations, and the maker of their steps."""

    gates: int
    n_states: int
    activations: tuple[str, ...]
    make_step: Callable[[OpKernelInfo, Direction], Step]
    is_quantized: bool = False

    def directions(
        self,
        activations: list[list[Block]],
        clip: float | None,
        parameters: Sequence[Tensor | None],
    ) -> list[Direction]:
        """Return each direction's parameters from W, R, B, P, and scales and zero points."""
        w, r, b, p, *quantization = parameters
        assert w is not None
        assert r is not None
        if not self.is_quantized:
            return _directions(activations, clip, w, r, b, p)
        weights = CentredWeights.of(w, r, quantization)
        return weights.scaled(_directions(activations, clip, weights.w, weights.r, b, p))

    def layout_nbytes(self, w: Tensor, r: Tensor, b: Tensor | None) -> int:
        """Return the largest size in bytes of what :meth:`directions` allocates."""
        if self.is_quantized:
            return 2 * np.dtype(np.float32).itemsize * (w.size + r.size)
        # the recurrent weights are copied in another order
        return widened_nbytes(w, r, b) + r.size * compute_dtype(r.dtype).itemsize

    def turned(self, weights: Tensor) -> Tensor:
        """Return weights as (directions, gates · hidden, columns).

        The quantized operator has the last two axes the other way round.
        """
        return weights.swapaxes(1, 2) if self.is_quantized and weights.ndim == 3 else weights

    def prepare(self, info: OpKernelInfo, direction: Direction) -> _Prepared:
        """Return a direction with its step."""
        return _Prepared(direction, self.make_step(info, direction))


class _Prepared(NamedTuple):
    """Parameters of one direction and its step."""

    parameters: Direction
    step: Step

    def run(
        self,
        context: OpKernelContext,
        inputs: Tensor,
        states: tuple[Tensor, ...],
        lengths: Tensor | None,
        reverse: bool,
        out: Tensor,
    ) -> tuple[Tensor, ...]:
        """Run all steps of ``inputs`` (steps, batch, gates · hidden) and return the last states.

        ``out`` gets the outputs (steps, batch, hidden).
        """
        _, batch, width = inputs.shape
        compute = partial(run_steps, context, inputs, states, self.step, lengths, reverse, out)
        is_small = batch * width * self.parameters.hidden < LEAST_SHARED_PRODUCTS
        return call_held_to_one_thread(compute) if is_small else compute()


def _directions(
    activations: list[list[Block]],
    clip: float | None,
    w: Tensor,
    r: Tensor,
    b: Tensor | None,
    p: Tensor | None,
) -> list[Direction]:
    """Return the parameters of each direction, laid out for the products."""
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
    """Directions and steps, laid out once if all of the node's parameters are constant."""
    values: list[Tensor | None] = []
    for slot in (1, 2, 3, 7, *range(8, 12)) if cell.is_quantized else (1, 2, 3, 7):
        is_given = slot < len(info.node.inputs) and bool(info.node.inputs[slot])
        value = info.constant_input(slot) if is_given else None
        if is_given and value is None:
            return None
        values.append(value)
    w, r = values[:2]
    if (
        w is None
        or r is None
        or w.ndim != 3
        or r.ndim != 3
        or len(w) != len(activations)
        or len(r) != len(w)
    ):
        return None  # the run will say what does not fit
    values[:2] = cell.turned(w), cell.turned(r)
    return [cell.prepare(info, d) for d in cell.directions(activations, clip, values)]


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
        turned_nbytes = x.size * compute_dtype(x.dtype).itemsize if batch_first else 0
        own_nbytes = widened_nbytes(x) + turned_nbytes + cell.is_quantized * x.nbytes
        w, r = cell.turned(w), cell.turned(r)
        if prepared is None:
            own_nbytes += cell.layout_nbytes(w, r, b)
        context.check_allocation(own_nbytes)
        wide = widened(x).transpose(1, 0, 2) if batch_first and x.ndim == 3 else widened(x)
        hidden = _check_shapes(wide, w, r, b, cell.gates, len(reversals))
        steps, batch, _ = wide.shape
        _check_lengths(lengths, steps, batch)
        shape = (len(reversals), batch, hidden)
        rows_of_all = (cell.gates + len(reversals)) * steps + 2 * len(reversals) * cell.n_states
        rows_of_all += 2 * cell.gates  # of one step
        context.check_allocation(own_nbytes + rows_of_all * batch * hidden * wide.itemsize)
        starts = [_initial_state(state, shape, order, wide.dtype) for state in initial]
        is_final = wanted_output and not batch_first and x.dtype == wide.dtype
        y = (
            context.output(0, (steps, *shape), x.dtype)
            if is_final
            else np.empty((steps, *shape), wide.dtype)
        )
        made = prepared or [
            cell.prepare(info, d)
            for d in cell.directions(activations, clip, (w, r, b, peepholes, *rest[3:]))
        ]
        lasts = _run_directions(context, made, wide, starts, lengths, reversals, y)
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


def _run_directions(
    context: OpKernelContext,
    directions: Sequence[_Prepared],
    x: Tensor,
    starts: Sequence[Tensor],
    lengths: Tensor | None,
    reversals: Sequence[bool],
    out: Tensor,
) -> list[Tensor]:
    """Run all directions of ``x`` (steps, batch, features) into ``out``.

    ``out`` is (steps, directions, batch, hidden).

    Returns:
        The last states, zeros if there are no steps.
    """
    lasts = [np.zeros(start.shape, x.dtype) for start in starts]
    if lengths is not None:  # steps after the longest sequence must not count in a scale
        longest = int(lengths.max(initial=0))
        out[longest:] = 0
        x, out = x[:longest], out[:longest]
    if not out.size:
        return lasts
    steps, batch, features = x.shape
    width = len(directions[0].parameters.weights)
    rows = np.ascontiguousarray(x).reshape(steps * batch, features)
    projected = np.empty((steps * batch, width), x.dtype)
    for at, direction in enumerate(directions):
        direction.parameters.project(rows, projected)
        inputs = projected.reshape(steps, batch, width)
        states = tuple(start[at] for start in starts)
        ends = direction.run(context, inputs, states, lengths, reversals[at], out[:, at])
        for last, end in zip(lasts, ends, strict=True):
            last[at] = end
            if lengths is not None:
                last[at, lengths == 0] = 0
    return lasts


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


@kernel("RNN", since=(1, 7, 14, 22), types={"T": FLOATS})
def rnn(info: OpKernelInfo) -> Compute:
    return _recurrent(info, _Cell(gates=1, n_states=1, activations=("Tanh",), make_step=rnn_step))


@kernel("GRU", since=(1, 3, 7, 14, 22), types={"T": FLOATS})
def gru(info: OpKernelInfo) -> Compute:
    return _recurrent(
        info,
        _Cell(
            gates=3,
            n_states=1,
            activations=("Sigmoid", "Tanh"),
            make_step=gru_step,
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
            make_step=lstm_step,
        ),
    )


@kernel("DynamicQuantizeLSTM", since=(1,), domain="com.microsoft", types={"T2": BYTES})
def dynamic_quantize_lstm(info: OpKernelInfo) -> Compute:
    """LSTM of float32 inputs and 8-bit weights (directions, input, gates · hidden)."""
    activations = ("Sigmoid", "Tanh", "Tanh")
    return _recurrent(
        info,
        _Cell(gates=4, n_states=2, activations=activations, make_step=lstm_step, is_quantized=True),
    )
