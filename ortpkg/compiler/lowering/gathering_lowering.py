"""Lowers operators that take elements by computed indices."""

from __future__ import annotations

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.lowering.elementwise_lowering import as_kind
from ortpkg.compiler.lowering.lowering_registry import lowers
from ortpkg.compiler.lowering.lowering_scope import (
    LoweringScope,
    NotLoweredError,
    attribute,
    identity_read,
    number,
)
from ortpkg.compiler.lowering.moving_lowering import axis_of
from ortpkg.compiler.tensor_ir.elements import (
    Call,
    Coordinate,
    Element,
    Function,
    Position,
    Read,
    SizeValue,
    Tensor,
    along,
)
from ortpkg.graph.graph import Node
from ortpkg.graph.shapes.expressions import Size


@lowers("Gather")
def lower_gather(scope: LoweringScope, node: Node) -> None:
    """Lower to slices by index; negative indices count from the end."""
    source, indices = scope.tensor(node.inputs[0]), scope.tensor(node.inputs[1])
    output = scope.tensor(node.outputs[0])
    axis, count = axis_of(node, len(source.shape)), len(indices.shape)
    index = Read(indices, tuple(along(axis + offset) for offset in range(count)))
    _report_out_of_range(scope, indices, source.shape[axis])
    coordinates = [along(dimension) for dimension in range(axis)]
    coordinates.append(gathered_coordinate(index, source.shape[axis]))
    behind = range(axis + 1, len(source.shape))
    coordinates += [along(dimension + count - 1) for dimension in behind]
    scope.map(output, Read(source, tuple(coordinates)))


@lowers("GatherElements")
def lower_gather_elements(scope: LoweringScope, node: Node) -> None:
    """Lower to elements at the output's coordinates, with the index in place of one axis."""
    source, indices = scope.tensor(node.inputs[0]), scope.tensor(node.inputs[1])
    axis = axis_of(node, len(source.shape))
    if len(indices.shape) != len(source.shape):
        raise NotLoweredError("its indices have another rank")
    _report_out_of_range(scope, indices, source.shape[axis])
    for dimension, (size, count) in enumerate(zip(source.shape, indices.shape, strict=True)):
        if dimension != axis:
            scope.require_not_negative(size - count)
    coordinates = [along(dimension) for dimension in range(len(source.shape))]
    coordinates[axis] = gathered_coordinate(identity_read(indices), source.shape[axis])
    scope.map(scope.tensor(node.outputs[0]), Read(source, tuple(coordinates)))


@lowers("GatherND")
def lower_gather_nd(scope: LoweringScope, node: Node) -> None:
    """Lower to slices by rows of indices, one for each of the first axes after the batch."""
    source, indices = scope.tensor(node.inputs[0]), scope.tensor(node.inputs[1])
    batch, depth = int(attribute(node, "batch_dims", 0)), indices.shape[-1]
    if not isinstance(depth, int):
        raise NotLoweredError("how many axes it takes by index is known only when it runs")
    ranks = (len(source.shape), len(indices.shape))
    if not 0 <= batch < min(ranks) or not 0 < depth <= ranks[0] - batch:
        raise NotLoweredError("its rows of indices are for other axes")
    for left, right in zip(source.shape[:batch], indices.shape[:batch], strict=True):
        scope.require_equal(left, right)
    rows = [along(dimension) for dimension in range(len(indices.shape) - 1)]
    coordinates = [along(dimension) for dimension in range(batch)]
    for column in range(depth):
        index = Read(indices, (*rows, Coordinate(offset=column)))
        _report_out_of_range(scope, indices, source.shape[batch + column], column)
        coordinates.append(gathered_coordinate(index, source.shape[batch + column]))
    behind = range(batch + depth, len(source.shape))
    coordinates += [along(dimension - batch - depth + len(rows)) for dimension in behind]
    scope.map(scope.tensor(node.outputs[0]), Read(source, tuple(coordinates)))


@lowers("OneHot")
def lower_one_hot(scope: LoweringScope, node: Node) -> None:
    """Lower to one of two values: on where the index equals the position along a new axis."""
    indices, output = scope.tensor(node.inputs[0]), scope.tensor(node.outputs[0])
    axis = axis_of(node, len(output.shape), default=-1)
    coordinates = [along(dimension) for dimension in range(len(output.shape)) if dimension != axis]
    index = as_kind(Read(indices, tuple(coordinates)), Scalar.I64)
    for size in scope.sizes(node.inputs[1], "depth"):
        scope.require_equal(size, output.shape[axis])
    depth = SizeValue(output.shape[axis])
    is_negative = Call(Function.LT, (index, number(0, Scalar.I64)))
    counted = Call(Function.SELECT, (is_negative, Call(Function.ADD, (index, depth)), index))
    values = scope.tensor(node.inputs[2])
    scope.require_equal(values.shape[0] if len(values.shape) == 1 else 0, 2)
    off, on = (Read(values, (Coordinate(offset=slot),)) for slot in (0, 1))
    is_chosen = Call(Function.EQ, (counted, Position(axis)))
    scope.map(output, Call(Function.SELECT, (is_chosen, on, off)))


def _report_out_of_range(
    scope: LoweringScope, indices: Tensor, size: Size, column: int | None = None
) -> None:
    """Make runs fail in which indices, or those of a column, are out of range for an axis.

    Constant indices are checked at compile time.
    """
    value = scope.constant_value(indices)
    if value is not None:
        chosen = value if column is None else value[..., column]
        if chosen.size:
            scope.require_not_negative(size - 1 - int(chosen.max()))
            scope.require_not_negative(size + int(chosen.min()))
        return
    axes = indices.shape if column is None else indices.shape[:-1]
    coordinates = [along(dimension) for dimension in range(len(axes))]
    coordinates += [] if column is None else [Coordinate(offset=column)]
    scope.report_wrong_indices(Read(indices, tuple(coordinates)), axes, size)


def gathered_coordinate(index: Element, size: Size) -> Coordinate:
    """Return the coordinate that an index means on an axis of this size, clamped to the axis."""
    index = as_kind(index, Scalar.I64)
    zero, end = number(0, Scalar.I64), SizeValue(size)
    is_negative = Call(Function.LT, (index, zero))
    counted = Call(Function.SELECT, (is_negative, Call(Function.ADD, (index, end)), index))
    last = Call(Function.SUB, (end, number(1, Scalar.I64)))
    within = Call(Function.MAX, (Call(Function.MIN, (counted, last)), zero))
    return Coordinate(value=within)
