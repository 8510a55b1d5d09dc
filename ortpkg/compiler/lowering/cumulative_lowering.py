"""Lowers running sums and products, over all elements up to each position."""

from __future__ import annotations

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.lowering.elementwise_lowering import as_kind, widened
from ortpkg.compiler.lowering.lowering_registry import lowers
from ortpkg.compiler.lowering.lowering_scope import (
    LoweringScope,
    NotLoweredError,
    attribute,
    counted_axis,
    number,
)
from ortpkg.compiler.tensor_ir.elements import (
    Call,
    Function,
    Made,
    Position,
    Read,
    along,
    scalar_of,
)
from ortpkg.compiler.tensor_ir.operations import Combiner, Reduce
from ortpkg.graph.graph import Node

#: Types that reductions sum and compare.
REDUCED = frozenset({Scalar.F32, Scalar.I32, Scalar.I64})
#: Longest axis, since a running sum reads the whole axis for each position.
_MOST_SUMMED = 4096


@lowers("CumSum", "CumProd")
def lower_cumulative(scope: LoweringScope, node: Node) -> None:
    """Lower to a masked reduction: for each position, over the elements up to it or from it on."""
    source, output = scope.tensor(node.inputs[0]), scope.tensor(node.outputs[0])
    rank = len(source.shape)
    axes = scope.numbers(node.inputs[1], "axis")
    if len(axes) != 1:
        raise NotLoweredError("it has not one axis")
    axis = counted_axis(axes[0], rank)
    size = source.shape[axis]
    if isinstance(size, int) and size > _MOST_SUMMED:
        raise NotLoweredError(f"its axis has {size} elements, of at most {_MOST_SUMMED}")
    coordinates = [along(dimension) for dimension in range(rank)]
    coordinates[axis] = along(rank)
    value = widened(Read(source, tuple(coordinates)))
    if scalar_of(value) not in REDUCED:
        raise NotLoweredError(f"running sums of {source.scalar.value} are not compiled")
    is_before = (
        (Function.GT if attribute(node, "exclusive", 0) else Function.GE)
        if not attribute(node, "reverse", 0)
        else (Function.LT if attribute(node, "exclusive", 0) else Function.LE)
    )
    is_sum = node.op_type == "CumSum"
    neutral = number(0 if is_sum else 1, scalar_of(value))
    counts = Call(is_before, (Position(axis), Position(rank)))
    made = as_kind(Made(scalar_of(value)), output.scalar)
    scope.emit(
        Reduce(
            output=output,
            axes=output.shape,
            reduced=(size,),
            combiner=Combiner.SUM if is_sum else Combiner.PRODUCT,
            value=Call(Function.SELECT, (counts, value, neutral)),
            epilogue=None if isinstance(made, Made) else made,
        )
    )
