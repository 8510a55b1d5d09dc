"""Lowers recurrent layers to a product for the inputs of all steps, and the steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.lowering.elementwise_lowering import widened
from ortpkg.compiler.lowering.gate_activations import gate_activations
from ortpkg.compiler.lowering.lowering_registry import lowers
from ortpkg.compiler.lowering.lowering_scope import (
    LoweringScope,
    NotLoweredError,
    attribute,
    number,
    size_element,
)
from ortpkg.compiler.tensor_ir.elements import (
    Call,
    Convert,
    Coordinate,
    Element,
    Function,
    Made,
    Position,
    Read,
    Tensor,
    along,
)
from ortpkg.compiler.tensor_ir.operations import Cell, Product, Recurrence
from ortpkg.graph.graph import Node
from ortpkg.graph.shapes.expressions import Size

_FLOATS = frozenset({Scalar.F32, Scalar.F16, Scalar.BF16})
#: Name → True for each direction that runs backward.
_DIRECTIONS: Mapping[str, tuple[bool, ...]] = {
    "forward": (False,),
    "reverse": (True,),
    "bidirectional": (False, True),
}
_ACTIVATIONS: Mapping[Cell, tuple[str, ...]] = {
    Cell.RNN: ("Tanh",),
    Cell.LSTM: ("Sigmoid", "Tanh", "Tanh"),
    Cell.GRU: ("Sigmoid", "Tanh"),
    Cell.GRU_RESET_AFTER: ("Sigmoid", "Tanh"),
}


@lowers("RNN", "GRU", "LSTM")
def lower_recurrent(scope: LoweringScope, node: Node) -> None:
    """Lower a layer of one or two directions, with initial states, lengths, clipping, peepholes."""
    layer = _layer_of(scope, node)
    inputs = _input_part(scope, layer)
    states = [
        None if state is None else _state_read(state, layer)
        for state in (_optional_input(scope, node, 5), _optional_input(scope, node, 6))
    ]
    lengths, peepholes = _optional_input(scope, node, 4), _optional_input(scope, node, 7)
    if lengths is not None:
        _report_wrong_lengths(scope, lengths, layer)
    outputs = _outputs(scope, node, layer)
    is_late = layer.cell is Cell.GRU_RESET_AFTER and layer.bias is not None
    scope.emit(
        Recurrence(
            output=outputs[0] or scope.temporary(layer.scalar, layer.output_shape, "output"),
            last=outputs[1],
            last_cell=outputs[2],
            cell=layer.cell,
            backward=layer.backward,
            steps=layer.steps,
            batch=layer.batch,
            hidden=layer.hidden,
            inputs=inputs,
            recurrence=widened(
                Read(
                    layer.recurrence, (along(0), Coordinate(((1, layer.hidden), (3, 1))), along(2))
                )
            ),
            late_bias=_bias_read(layer, 5 * layer.hidden, unit_axis=1) if is_late else None,
            initial=states[0],
            initial_cell=states[1],
            peepholes=() if peepholes is None else _peepholes(peepholes, layer.hidden),
            lengths=None if lengths is None else Read(lengths, (along(0),)),
            activations=gate_activations(
                node,
                _ACTIVATIONS[layer.cell],
                len(layer.backward),
                clipped=min(2, len(_ACTIVATIONS[layer.cell])),
            ),
        )
    )
    _move_batch_first(scope, node, layer, outputs)


def _report_wrong_lengths(scope: LoweringScope, lengths: Tensor, layer: _Layer) -> None:
    """Make runs fail whose sequence_lens is below 0 or above the number of steps."""
    if len(lengths.shape) != 1:
        raise NotLoweredError("it has not one length for each sequence")
    scope.require_equal(lengths.shape[0], layer.batch)
    length = Convert(Read(lengths, (along(0),)), Scalar.I64)
    is_wrong = Call(
        Function.OR,
        (
            Call(Function.LT, (length, number(0, Scalar.I64))),
            Call(Function.GT, (length, size_element(layer.steps, Scalar.I64))),
        ),
    )
    scope.report(is_wrong, lengths.shape, layer.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layer:
    """Parameters and sizes of a recurrent node.

    Attributes:
        is_batch_first: True if the batch is the first dimension of inputs, outputs and states.
    """

    cell: Cell
    backward: tuple[bool, ...]
    steps: Size
    batch: Size
    hidden: int
    is_batch_first: bool
    source: Tensor
    weights: Tensor
    recurrence: Tensor
    bias: Tensor | None

    @property
    def scalar(self) -> Scalar:
        """Scalar type of the layer's inputs and outputs."""
        return self.source.scalar

    @property
    def width(self) -> int:
        """Number of units of all gates."""
        return self.cell.gate_count * self.hidden

    @property
    def output_shape(self) -> tuple[Size, ...]:
        """Sizes (steps, directions, batch, hidden)."""
        return (self.steps, len(self.backward), self.batch, self.hidden)


def _layer_of(scope: LoweringScope, node: Node) -> _Layer:
    if attribute(node, "input_forget", 0):
        raise NotLoweredError("its forget gate is coupled with its input gate")
    source, weights, recurrence = (scope.tensor(name) for name in node.inputs[:3])
    if not {source.scalar, weights.scalar, recurrence.scalar} <= _FLOATS:
        raise NotLoweredError(f"recurrent layers of {source.scalar.value} are not compiled")
    direction = str(attribute(node, "direction", "forward"))
    if direction not in _DIRECTIONS:
        raise NotLoweredError("it runs in no known direction")
    cell = Cell(node.op_type.lower())
    if cell is Cell.GRU and attribute(node, "linear_before_reset", 0):
        cell = Cell.GRU_RESET_AFTER
    hidden = recurrence.shape[-1] if recurrence.shape else 0
    backward = _DIRECTIONS[direction]
    if not isinstance(hidden, int) or hidden == 0:
        raise NotLoweredError("the size of its states is empty, or known only when it runs")
    width = cell.gate_count * hidden
    fits = (
        len(source.shape) == 3
        and recurrence.shape == (len(backward), width, hidden)
        and weights.shape == (len(backward), width, source.shape[2])
    )
    if not fits:
        raise NotLoweredError("the shapes of its inputs and weights do not fit each other")
    is_batch_first = bool(attribute(node, "layout", 0))
    return _Layer(
        cell=cell,
        backward=backward,
        steps=source.shape[1 if is_batch_first else 0],
        batch=source.shape[0 if is_batch_first else 1],
        hidden=hidden,
        is_batch_first=is_batch_first,
        source=source,
        weights=weights,
        recurrence=recurrence,
        bias=_optional_input(scope, node, 3),
    )


def _optional_input(scope: LoweringScope, node: Node, slot: int) -> Tensor | None:
    """Return an input's tensor, None if it is missing."""
    name = node.inputs[slot] if slot < len(node.inputs) else ""
    return scope.tensor(name) if name else None


def _input_part(scope: LoweringScope, layer: _Layer) -> Tensor:
    """Return the inputs' part of all gates, (directions, steps * batch, gates * hidden)."""
    source, features = layer.source, layer.source.shape[2]
    if layer.is_batch_first:
        turned = scope.temporary(source.scalar, (layer.steps, layer.batch, features), "turned")
        scope.map(turned, Read(source, (along(1), along(0), along(2))))
        source = turned
    rows = scope.temporary(source.scalar, (layer.steps * layer.batch, features), "rows")
    scope.alias(rows, source)
    shape = (len(layer.backward), rows.shape[0], layer.width)
    made = scope.temporary(Scalar.F32, shape, "gates")
    scope.emit(
        Product(
            output=made,
            batch=(len(layer.backward),),
            m=rows.shape[0],
            n=layer.width,
            k=features,
            left=widened(Read(rows, (along(1), along(2)))),
            right=widened(Read(layer.weights, (along(0), along(2), along(1)))),
            epilogue=_with_biases(layer),
        )
    )
    return made


def _with_biases(layer: _Layer) -> Element | None:
    """Return the product's epilogue: all biases except those that only later steps add."""
    if layer.bias is None:
        return None
    made = Call(Function.ADD, (Made(Scalar.F32), _bias_read(layer, 0, unit_axis=2)))
    recurrent = _bias_read(layer, layer.width, unit_axis=2)
    if layer.cell is Cell.GRU_RESET_AFTER:
        is_gate = Call(Function.LT, (Position(2), number(2 * layer.hidden, Scalar.I64)))
        recurrent = Call(Function.SELECT, (is_gate, recurrent, number(0.0, Scalar.F32)))
    return Call(Function.ADD, (made, recurrent))


def _bias_read(layer: _Layer, first: int, *, unit_axis: int) -> Element:
    """Return a read of the bias, whose first axis is the direction."""
    if layer.bias is None or layer.bias.shape != (len(layer.backward), 2 * layer.width):
        raise NotLoweredError("the shape of its biases does not fit its weights")
    return widened(Read(layer.bias, (along(0), Coordinate(((unit_axis, 1),), first))))


def _state_read(state: Tensor, layer: _Layer) -> Element:
    """Return a read of an initial state, over (direction, sequence, unit)."""
    coordinates = [along(0), along(1), along(2)]
    sizes: list[Size] = [len(layer.backward), layer.batch, layer.hidden]
    if layer.is_batch_first:
        coordinates[:2], sizes[:2] = coordinates[1::-1], sizes[1::-1]
    if state.shape != tuple(sizes):
        raise NotLoweredError("the shape of its initial states does not fit its inputs")
    return widened(Read(state, tuple(coordinates)))


def _peepholes(tensor: Tensor, hidden: int) -> tuple[Element, ...]:
    """Return the peepholes of the gates i, o and f."""
    return tuple(
        widened(Read(tensor, (along(0), Coordinate(((1, 1),), gate * hidden)))) for gate in range(3)
    )


def _outputs(scope: LoweringScope, node: Node, layer: _Layer) -> list[Tensor | None]:
    """Return the tensors that the steps write, with the batch after steps and directions."""
    last = layer.output_shape[1:]
    made: list[Tensor | None] = []
    for slot, shape in enumerate((layer.output_shape, last, last)):
        name = node.outputs[slot] if slot < len(node.outputs) else ""
        if not name:
            made.append(None)
        elif layer.is_batch_first:
            made.append(scope.temporary(layer.scalar, shape, "batch last"))
        else:
            made.append(scope.tensor(name))
    return made


def _move_batch_first(
    scope: LoweringScope, node: Node, layer: _Layer, made: Sequence[Tensor | None]
) -> None:
    """Write the outputs with the batch first, if the layer has that layout."""
    if not layer.is_batch_first:
        return
    orders = ((1, 2, 0, 3), (1, 0, 2), (1, 0, 2))
    for name, tensor, order in zip(node.outputs, made, orders, strict=False):
        if tensor is not None:
            scope.map(scope.tensor(name), Read(tensor, tuple(map(along, order))))
