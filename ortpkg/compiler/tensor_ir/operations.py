"""The operations of the tensor IR.

Every operation has one output. Some have an *epilogue*, elementwise work that follows in registers:
an expression over the axes of the output, in which ``Made`` is the operation's own result. Without
an epilogue, that result is the output.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ortpkg.compiler.tensor_ir.elements import Coordinate, Element, Tensor
from ortpkg.graph.shapes.expressions import Size


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Map:
    """Elementwise work and moves: one expression, written for each combination of the axes.

    Attributes:
        output: tensor written at ``coordinates``, one for each dimension; other elements stay as
            they
            are, so that several maps may fill one tensor.
        axes: size of each axis.
        value: expression over the axes.
        coordinates: coordinates over the axes; usually coordinate i is axis i.
    """

    output: Tensor
    axes: tuple[Size, ...]
    value: Element
    coordinates: tuple[Coordinate, ...]


class Combiner(StrEnum):
    """Functions with which a reduction combines elements."""

    SUM = "sum"
    PRODUCT = "product"
    MAX = "max"
    MIN = "min"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reduce:
    """Combines elements along axes, in a fixed order.

    Attributes:
        output: tensor of the shape ``axes``; an alias adds the dimensions that the model keeps.
        axes: axes that stay, numbered first.
        reduced: axes that are combined, numbered after them.
        combiner: the function that combines.
        value: expression over both.
        epilogue: expression over ``axes``.
    """

    output: Tensor
    axes: tuple[Size, ...]
    reduced: tuple[Size, ...]
    combiner: Combiner
    value: Element
    epilogue: Element | None = None


class RowFunction(StrEnum):
    """Functions of whole rows.

    For the row x: SOFTMAX is exp(x - max) / sum; LOG_SOFTMAX its logarithm; STANDARDIZE is
    (x - mean) / sqrt(variance + epsilon); RMS is x / sqrt(mean of squares + epsilon).
    """

    SOFTMAX = "softmax"
    LOG_SOFTMAX = "log_softmax"
    STANDARDIZE = "standardize"
    RMS = "rms"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowNormalize:
    """Normalizes each element by its whole row; rows run along the last axis.

    Attributes:
        output: tensor of the shape ``axes``.
        function: the function of rows.
        axes: axes of the rows, then the position in the row.
        value: the rows' elements, f32, over the axes.
        epilogue: expression over the axes.
        statistics: tensors of the shape of the rows that receive the mean and the reciprocal of the
            standard deviation (layer normalization); None if unused.
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
    r"""Matrix products: output[batch..., m, n] = sum over k of left[.., m, k] * right[.., k, n].

    Floats are summed in f32. For integers, ``left`` and ``right`` are each u8 or i8, and ``Made``
    is the i32 sum of (left - left_zero) * (right - right_zero).

    Attributes:
        output: tensor of the shape (\*batch, m, n).
        batch, m, n, k: sizes; axes are numbered batch, then m, then n.
        left, right: expressions over (batch..., m, k) and (batch..., k, n): axis ``len(batch)`` is
            the
            first of the last two, axis ``len(batch) + 1`` the second, in each.
        left_zero, right_zero: zero points as elements over the same axes, or None for 0; the left
            one
            may vary only with m, the right one with n.
        epilogue: expression over batch, m, n.
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
    """Windows of a convolution or a pooling, one number for each spatial axis.

    Attributes:
        kernel, strides, dilations: sizes of the window, and its steps.
        before: padding before the source.
        after: padding behind the source, as far as windows reach.
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
        spread: for a transposed convolution, distance of the source's elements along each spatial
            axis,
            with zeros between them, before windows are taken; None for 1. Weights must then be
            constants, and paddings numbers.
        source_zero, weights_zero: zero points for integers: a number, and a number for each output
            channel or one for all; None for 0.
        epilogue: expression over the output's axes.
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
        """True if each output channel is summed over one source channel, its own.

        A transposed convolution counts as grouped, not as depthwise.
        """
        is_of_one = self.weights.shape[:2] == (self.groups, 1) and self.groups > 1
        return is_of_one and self.spread is None


class PoolFunction(StrEnum):
    """Functions of a window; only AVERAGE_PADDED counts padding in."""

    MAX = "max"
    AVERAGE = "average"
    AVERAGE_PADDED = "average_padded"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pool:
    """One number for each window, over (batch, channels, spatial...).

    Source and output are both plain, or both have their channels in blocks
    (:mod:`.channel_blocks`). A blocked pooling has no epilogue unless channels fill all blocks,
    since it could make unused lanes other than 0.
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
        batch: sizes, including heads; axes are numbered batch, then two more.
        queries, keys, width, value_width: sizes.
        query: expression over (batch..., query, width).
        key: expression over (batch..., key, width).
        value: expression over (batch..., key, value width).
        score: expression over (batch..., query, key) that scales and masks ``Made``, the f32
            product,
            before the softmax; None for no change.
        coordinates: position in the output of the element (batch..., query, value width), one
            coordinate for each dimension.
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
    coordinates: tuple[Coordinate, ...]


class Cell(StrEnum):
    """Cells of recurrent layers: how a state follows from the previous one.

    H is the state, C an LSTM's cell. With x, the input's part of a gate, and R, its product with
    the state before: RNN is H = f(x + R). LSTM has gates i, o, f, c: C = f(f) * C + f(i) * g(c), H
    = f(o) * h(C). GRU has gates z, r, h: the candidate g is g(x + (f(r) * H) R), or g(x + f(r) * (H
    R + late bias)) for GRU_RESET_AFTER, and H = z * H + (1 - z) * g.
    """

    RNN = "rnn"
    LSTM = "lstm"
    GRU = "gru"
    GRU_RESET_AFTER = "gru_reset_after"

    @property
    def gate_count(self) -> int:
        """Number of gates of a unit."""
        return {Cell.RNN: 1, Cell.LSTM: 4}.get(self, 3)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recurrence:
    """The steps of a recurrent layer, one after the other, in each direction.

    A sequence that has ended keeps its state, and its output is 0. The last state of a sequence
    without steps is 0.

    Attributes:
        output: tensor (steps, directions, batch, hidden): the state after each step.
        last, last_cell: tensors (directions, batch, hidden): final states; None if unused.
        cell: the cell.
        backward: True for each direction that begins with the last step.
        steps, batch, hidden: sizes.
        inputs: f32 tensor (directions, steps * batch, gates * hidden): the inputs' part of all
            gates,
            with the biases.
        recurrence: expression over (direction, gate, unit of the state before, unit of the gate).
        late_bias: expression over (direction, unit), for GRU_RESET_AFTER's candidate.
        initial, initial_cell: expressions over (direction, sequence, unit); None for zeros.
        peepholes: expressions over (direction, unit), for an LSTM's gates i, o and f.
        lengths: number of steps of each sequence, over (sequence,); None for all steps.
        activations: f, g and h as far as the cell has them: f32 expressions of ``Made`` alone.
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
    """The same elements in the same order under another shape; nothing is computed."""

    output: Tensor
    source: Tensor


Operation = (
    Map | Reduce | RowNormalize | Product | Convolution | Pool | Attention | Recurrence | Alias
)
