"""The operations of the tensor IR.

Every operation has one output, and an *epilogue* where elementwise work may follow in registers:
an expression over the axes of the output, in which ``Made`` is what the operation itself computed.
Without one, the output is that.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ortpkg.codegen.tensor_ir.elements import Element, Place, Tensor
from ortpkg.shapes.expressions import Size


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Map:
    """Elementwise work and moves: the output at each place of the axes is the expression.

    Attributes:
        output: written at ``places``, one for each dimension of it; other elements stay as they
            are, so that several maps may fill one tensor.
        axes: how far each axis counts.
        value: over the axes.
        places: by default axis i is dimension i.
    """

    output: Tensor
    axes: tuple[Size, ...]
    value: Element
    places: tuple[Place, ...]


class Combiner(StrEnum):
    """How a reduction combines elements."""

    SUM = "sum"
    PRODUCT = "product"
    MAX = "max"
    MIN = "min"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reduce:
    """Combines elements along axes, in a fixed order.

    Attributes:
        output: of the shape ``axes``, C order; which axes the model keeps is an alias's matter.
        axes: those that are kept, numbered first.
        reduced: those that are combined, numbered after them.
        value: over both.
        epilogue: over ``axes``.
    """

    output: Tensor
    axes: tuple[Size, ...]
    reduced: tuple[Size, ...]
    combiner: Combiner
    value: Element
    epilogue: Element | None = None


class RowFunction(StrEnum):
    """What is computed of whole rows.

    With the row x: SOFTMAX is exp(x - max) / sum; LOG_SOFTMAX its logarithm; STANDARDIZE is
    (x - mean) / sqrt(variance + epsilon); RMS is x / sqrt(mean of squares + epsilon).
    """

    SOFTMAX = "softmax"
    LOG_SOFTMAX = "log_softmax"
    STANDARDIZE = "standardize"
    RMS = "rms"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowNormalize:
    """Normalizes rows: each element by what its whole row has. The last axis runs along the row.

    Attributes:
        output: of the shape ``axes``.
        axes: rows, then the place in the row.
        value: the row's elements, f32, over the axes.
        epilogue: over the axes.
        statistics: for layer normalization, tensors of the shape of the rows that take the mean and
            the reciprocal of the standard deviation; None where nobody asks for them.
    """

    output: Tensor
    function: RowFunction
    axes: tuple[Size, ...]
    value: Element
    epsilon: float = 0.0
    epilogue: Element | None = None
    statistics: tuple[Tensor | None, Tensor | None] = (None, None)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Product:
    """Matrix products: output[batch..., m, n] = sum over k of left[.., m, k] * right[.., k, n].

    Floats are summed in f32. Of integers, ``left`` is u8 or i8 and ``right`` u8 or i8, and
    ``Made`` is the i32 sum of (left - left_zero) * (right - right_zero).

    Attributes:
        output: of the shape (\\*batch, m, n).
        batch, m, n, k: sizes; axes are numbered batch, then m, then n.
        left, right: read at places over (batch..., m, k) and (batch..., k, n): axis ``len(batch)``
            is the first of the last two, axis ``len(batch) + 1`` the second, of each.
        left_zero, right_zero: zero points as elements over the same axes, or None for 0; a left
            one varies at most with m, a right one with n.
        epilogue: over batch, m, n.
    """

    output: Tensor
    batch: tuple[Size, ...]
    m: Size
    n: Size
    k: Size
    left: Element
    right: Element
    left_zero: Element | None = None
    right_zero: Element | None = None
    epilogue: Element | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The windows of a convolution or a pooling, one number for each spatial axis.

    ``after``: padding behind, as far as windows reach it.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[Size, ...]
    after: tuple[Size, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Convolution:
    """Sums of windows times weights, over (batch, output channels, spatial...).

    Source and output may each be plain, or have their channels in blocks
    (:mod:`.channel_blocks`); schedules make a blocked output.

    Attributes:
        source: (batch, channels, spatial...), or (batch, blocks, spatial..., lanes).
        weights: (output channels, channels / groups, kernel...).
        spread: of a transposed convolution, how far apart the elements of the source stand along
            each spatial axis, with zeros between them, before windows go over it; None: 1. Weights
            are constants then, and paddings numbers.
        source_zero, weights_zero: zero points of integers: one number, and one for each output
            channel or one; None for 0.
        epilogue: over the output's axes.
    """

    output: Tensor
    source: Tensor
    weights: Tensor
    groups: int
    window: Window
    spread: tuple[int, ...] | None = None
    source_zero: Element | None = None
    weights_zero: Element | None = None
    epilogue: Element | None = None

    @property
    def is_depthwise(self) -> bool:
        """Whether each output channel is summed over one channel of the source, its own.

        A transposed one counts as any other with groups.
        """
        is_of_one = self.weights.shape[:2] == (self.groups, 1) and self.groups > 1
        return is_of_one and self.spread is None


class PoolFunction(StrEnum):
    """What is made of a window: AVERAGE_PADDED counts padding in, AVERAGE what is really there."""

    MAX = "max"
    AVERAGE = "average"
    AVERAGE_PADDED = "average_padded"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pool:
    """One number for each window, over (batch, channels, spatial...).

    Source and output are both plain, or both have their channels in blocks
    (:mod:`.channel_blocks`). An epilogue makes 0 of lanes that no channel has: whoever moves a
    pooling to blocks gives it none where channels do not fill them.
    """

    output: Tensor
    source: Tensor
    function: PoolFunction
    window: Window
    epilogue: Element | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Attention:
    """softmax(score(query * key^T)) * value, along the keys, without the scores in memory.

    Attributes:
        batch: sizes, heads among them; axes are numbered batch, then two more.
        queries, keys, width, value_width: sizes.
        query: over (batch..., query, width).
        key: over (batch..., key, width).
        value: over (batch..., key, value width).
        score: over (batch..., query, key): what becomes of ``Made``, the f32 product, before the
            softmax: scaled, masked; None for nothing.
        places: where the element of (batch..., query, value width) lies in the output, one place
            for each dimension of it.
    """

    output: Tensor
    batch: tuple[Size, ...]
    queries: Size
    keys: Size
    width: Size
    value_width: Size
    query: Element
    key: Element
    value: Element
    score: Element | None
    places: tuple[Place, ...]


class Cell(StrEnum):
    """How a state follows from the one before. H is the state, C an LSTM's cell.

    With x, the input's part of a gate, and R, its product with the state before: RNN is
    H = f(x + R). LSTM has gates i, o, f, c: C = f(f) * C + f(i) * g(c), H = f(o) * h(C). GRU has
    gates z, r, h: the candidate g is g(x + (f(r) * H) R), or g(x + f(r) * (H R + late bias)) for
    GRU_RESET_AFTER, and H = z * H + (1 - z) * g.
    """

    RNN = "rnn"
    LSTM = "lstm"
    GRU = "gru"
    GRU_RESET_AFTER = "gru_reset_after"

    @property
    def gate_count(self) -> int:
        """How many gates there are."""
        return {Cell.RNN: 1, Cell.LSTM: 4}.get(self, 3)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recurrence:
    """The steps of a recurrent layer, one after the other, in each direction.

    A sequence that has ended keeps its state, and its output is 0. The last state of one without
    any step is 0.

    Attributes:
        output: of the shape (steps, directions, batch, hidden): the state after each step.
        last, last_cell: of the shape (directions, batch, hidden): states at the end; None where
            nobody asks for them.
        cell: how a state follows.
        backward: of each direction, whether it begins with the last step.
        steps, batch, hidden: sizes.
        inputs: of the shape (directions, steps * batch, gates * hidden), f32: the inputs' part of
            all gates, with the biases.
        recurrence: over (direction, gate, unit of the state before, unit of the gate).
        late_bias: over (direction, unit): of GRU_RESET_AFTER's candidate.
        initial, initial_cell: over (direction, sequence of the batch, unit); None: zeros.
        peepholes: of an LSTM, those of the gates i, o and f, over (direction, unit).
        lengths: over (sequence of the batch,), how many steps it has; None: all.
        activations: f, g and h as far as the cell has them, f32, over nothing but ``Made``.
    """

    output: Tensor
    last: Tensor | None
    last_cell: Tensor | None
    cell: Cell
    backward: tuple[bool, ...]
    steps: Size
    batch: Size
    hidden: int
    inputs: Tensor
    recurrence: Element
    late_bias: Element | None
    initial: Element | None
    initial_cell: Element | None
    peepholes: tuple[Element, ...]
    lengths: Element | None
    activations: tuple[Element, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Alias:
    """The same elements in the same order under another shape: nothing is computed."""

    output: Tensor
    source: Tensor


Operation = (
    Map | Reduce | RowNormalize | Product | Convolution | Pool | Attention | Recurrence | Alias
)
