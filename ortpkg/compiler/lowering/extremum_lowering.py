"""Lowers ArgMax and ArgMin: positions of the greatest or least element along an axis.

They are two reductions: the extremum of each row, and the first (or last) position of an element
equal to it. In a row with NaN the result is the position of a NaN, as in numpy.
"""

from __future__ import annotations

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.lowering.elementwise_lowering import widened
from ortpkg.compiler.lowering.lowering_registry import lowers
from ortpkg.compiler.lowering.lowering_scope import (
    LoweringScope,
    NotLoweredError,
    attribute,
    size_element,
)
from ortpkg.compiler.lowering.moving_lowering import axis_of
from ortpkg.compiler.tensor_ir.elements import (
    Call,
    Element,
    Function,
    Position,
    Read,
    along,
    scalar_of,
)
from ortpkg.compiler.tensor_ir.operations import Combiner, Reduce
from ortpkg.graph.graph import Node

_COMPARED = frozenset({Scalar.F32, Scalar.I32, Scalar.I64})


@lowers("ArgMax", "ArgMin")
def lower_extremum_position(scope: LoweringScope, node: Node) -> None:
    """Lower to the position of the first or last extremum along the axis."""
    source, output = scope.tensor(node.inputs[0]), scope.tensor(node.outputs[0])
    rank = len(source.shape)
    axis = axis_of(node, rank, default=0)
    size = source.shape[axis]
    scope.require_not_negative(size - 1)
    kept_axes = [dimension for dimension in range(rank) if dimension != axis]
    shape = tuple(source.shape[dimension] for dimension in kept_axes)
    order = [*kept_axes, axis]
    value = widened(Read(source, tuple(along(order.index(dimension)) for dimension in range(rank))))
    if scalar_of(value) not in _COMPARED:
        raise NotLoweredError(f"extrema of {source.scalar.value} are not compiled")
    is_greatest = node.op_type == "ArgMax"
    extremum = scope.temporary(scalar_of(value), shape, "extremum")
    scope.emit(
        Reduce(
            output=extremum,
            axes=shape,
            reduced=(size,),
            combiner=Combiner.MAX if is_greatest else Combiner.MIN,
            value=value,
        )
    )
    is_last = bool(attribute(node, "select_last_index", 0))
    is_best = _is_extremum(
        value, Read(extremum, tuple(along(dimension) for dimension in range(len(kept_axes))))
    )
    nowhere = size_element(-1 if is_last else size, Scalar.I64)
    position = scope.temporary(output.scalar, shape, "position")
    scope.emit(
        Reduce(
            output=position,
            axes=shape,
            reduced=(size,),
            combiner=Combiner.MAX if is_last else Combiner.MIN,
            value=Call(Function.SELECT, (is_best, Position(len(kept_axes)), nowhere)),
        )
    )
    scope.alias(output, position)


def _is_extremum(value: Element, extremum: Element) -> Element:
    """Return a test whether an element is the extremum, or NaN, which makes the extremum NaN."""
    is_equal = Call(Function.EQ, (value, extremum))
    if not scalar_of(value).is_float:
        return is_equal
    return Call(Function.OR, (is_equal, Call(Function.NE, (value, value))))
