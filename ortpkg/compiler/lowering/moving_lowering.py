"""Lowers operators that move elements: other shapes, orders, pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.lowering.elementwise_lowering import as_kind, widened
from ortpkg.compiler.lowering.lowering_registry import lowers
from ortpkg.compiler.lowering.lowering_scope import (
    LoweringScope,
    NotLoweredError,
    attribute,
    counted_axis,
    identity_read,
    number,
)
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
    scalar_of,
)
from ortpkg.compiler.tensor_ir.operations import Map
from ortpkg.graph.graph import Node
from ortpkg.graph.shapes.expression_bounds import is_at_least
from ortpkg.graph.shapes.expressions import Size
from ortpkg.graph.shapes.size_operations import larger, smaller

#: Longest step of Slice; longer ones are cut, since axes are shorter and products could overflow.
_MOST_STEP = 1 << 31


def axis_of(node: Node, rank: int, *, default: int = 0) -> int:
    """Return the attribute ``axis``, counted from the front."""
    return counted_axis(int(attribute(node, "axis", default)), rank)


@lowers("Flatten", "Unsqueeze")
def lower_flatten(scope: LoweringScope, node: Node) -> None:
    """Lower to the same elements under the inferred shape."""
    if len(node.inputs) > 1:
        scope.numbers(node.inputs[1], "axes")
    scope.alias(scope.tensor(node.outputs[0]), scope.tensor(node.inputs[0]))


@lowers("Reshape")
def lower_reshape(scope: LoweringScope, node: Node) -> None:
    """Lower to the same elements under the inferred shape.

    Inference assumes that no computed size is -1, nor 0 where 0 means "as in the input", and that
    the size left open by -1 follows from sizes that are not 0. Runs check these assumptions.
    """
    source, output = scope.tensor(node.inputs[0]), scope.tensor(node.outputs[0])
    # The target's sizes in a run may differ from the shape that the model declares.
    requested = scope.sizes(node.inputs[1], "target's sizes") if len(node.inputs) > 1 else ()
    keeps_zero = bool(attribute(node, "allowzero", 0))
    if len(requested) == len(output.shape):
        is_open = -1 in requested
        for axis, (size, output_size) in enumerate(zip(requested, output.shape, strict=True)):
            if not isinstance(size, int):
                scope.require_equal(size, output_size)
                source_size = source.shape[axis] if axis < len(source.shape) else None
                if not keeps_zero and size != source_size:
                    scope.require_not_negative(size - 1)
            if is_open and size != -1:
                scope.require_not_negative(output_size - 1)
    scope.alias(output, source)


@lowers("Squeeze")
def lower_squeeze(scope: LoweringScope, node: Node) -> None:
    """Lower to the same elements without the squeezed axes; runs check that these have size 1."""
    source, output = scope.tensor(node.inputs[0]), scope.tensor(node.outputs[0])
    axes: Sequence[int] = tuple(attribute(node, "axes", ()))
    if len(node.inputs) > 1 and node.inputs[1]:
        axes = scope.numbers(node.inputs[1], "axes")
    for axis in axes:
        scope.require_equal(source.shape[counted_axis(axis, len(source.shape))], 1)
    scope.alias(output, source)


@lowers("Transpose")
def lower_transpose(scope: LoweringScope, node: Node) -> None:
    """Lower to axes in another order."""
    source, output = scope.tensor(node.inputs[0]), scope.tensor(node.outputs[0])
    rank = len(source.shape)
    order = tuple(attribute(node, "perm", tuple(reversed(range(rank)))))
    if sorted(order) != list(range(rank)):
        raise NotLoweredError("its order has not each axis once")
    coordinates = tuple(along(order.index(dimension)) for dimension in range(rank))
    scope.map(output, Read(source, coordinates))


@lowers("Expand")
def lower_expand(scope: LoweringScope, node: Node) -> None:
    """Lower to a broadcast; runs check that each requested size is 1 or that of the output."""
    output = scope.tensor(node.outputs[0])
    requested = scope.sizes(node.inputs[1], "target's sizes")
    for size, output_size in zip(reversed(requested), reversed(output.shape), strict=False):
        if size not in {1, output_size}:
            scope.require_equal((output_size - size) * (size - 1), 0)
    scope.map(output, scope.broadcast(node.inputs[0], output.shape))


@lowers("Concat")
def lower_concat(scope: LoweringScope, node: Node) -> None:
    """Lower to one map for each piece."""
    output = scope.tensor(node.outputs[0])
    axis = axis_of(node, len(output.shape))
    offset: Size = 0
    for name in node.inputs:
        piece = scope.tensor(name)
        add_piece(scope, output, piece, identity_read(piece), axis, offset)
        offset = offset + piece.shape[axis]


def add_piece(
    scope: LoweringScope, output: Tensor, piece: Tensor, value: Element, axis: int, offset: Size
) -> None:
    """Fill a part of ``output`` from a piece, after checks that their other sizes are equal."""
    for dimension, (size, wanted) in enumerate(zip(piece.shape, output.shape, strict=True)):
        if dimension != axis:
            scope.require_equal(size, wanted)
    write_piece(scope, output, piece.shape, value, axis, offset)


def write_piece(
    scope: LoweringScope,
    output: Tensor,
    axes: Sequence[Size],
    value: Element,
    axis: int,
    offset: Size,
) -> None:
    """Fill the part of ``output`` that begins at ``offset`` along one dimension."""
    coordinates = tuple(
        Coordinate(((dimension, 1),), offset if dimension == axis else 0)
        for dimension in range(len(axes))
    )
    scope.emit(Map(output=output, axes=tuple(axes), value=value, coordinates=coordinates))


@lowers("Split")
def lower_split(scope: LoweringScope, node: Node) -> None:
    """Lower to one map for each piece."""
    source = scope.tensor(node.inputs[0])
    axis = axis_of(node, len(source.shape))
    if len(node.inputs) > 1 and node.inputs[1]:
        scope.sizes(node.inputs[1], "lengths")
    offset: Size = 0
    for name in node.outputs:
        if not name:
            raise NotLoweredError("one of its outputs is left out")
        piece = scope.tensor(name)
        coordinates = tuple(
            Coordinate(((dimension, 1),), offset if dimension == axis else 0)
            for dimension in range(len(piece.shape))
        )
        scope.map(piece, Read(source, coordinates))
        offset = offset + piece.shape[axis]
    scope.require_equal(offset, source.shape[axis])


@lowers("Slice")
def lower_slice(scope: LoweringScope, node: Node) -> None:
    """Lower to a part of each axis, with a known start and known steps."""
    source, output = scope.tensor(node.inputs[0]), scope.tensor(node.outputs[0])
    rank = len(source.shape)
    starts, axes, steps = _slice_parameters(scope, node, rank)
    coordinates = [along(dimension) for dimension in range(rank)]
    for start, axis, step in zip(starts, axes, steps, strict=True):
        size = source.shape[axis]
        step = max(-_MOST_STEP, min(step, _MOST_STEP))
        first = _first_index(start, size, step)
        coordinates[axis] = Coordinate(((axis, step),), first)
    scope.map(output, Read(source, tuple(coordinates)))


def _slice_parameters(
    scope: LoweringScope, node: Node, rank: int
) -> tuple[Sequence[Size], Sequence[int], Sequence[int]]:
    if "starts" in node.attributes:  # before opset 10
        starts: Sequence[Size] = tuple(attribute(node, "starts", ()))
        axes: Sequence[int] = tuple(attribute(node, "axes", range(len(starts))))
        steps: Sequence[int] = (1,) * len(starts)
    else:
        starts = scope.sizes(node.inputs[1], "starts")
        inputs = [*node.inputs, "", ""]
        axes = scope.numbers(inputs[3], "axes") if inputs[3] else range(len(starts))
        steps = scope.numbers(inputs[4], "steps") if inputs[4] else (1,) * len(starts)
    if not len(starts) == len(axes) == len(steps):
        raise NotLoweredError("it has not one start and step for each axis")
    return starts, [counted_axis(axis, rank) for axis in axes], steps


def _first_index(start: Size, size: Size, step: int) -> Size:
    """Return the index of the first element, clamped to the axis as ONNX defines it."""
    if isinstance(start, int) and isinstance(size, int):
        counted = start + size if start < 0 else start
        return min(max(counted, 0), size if step > 0 else size - 1)
    if step > 0 and is_at_least(start, 0):
        return smaller(start, size)
    if step > 0 and is_at_least(0, start):
        return larger(0, size + start)
    if start == -1 and step < 0:
        return size - 1
    raise NotLoweredError("its first element depends on sizes that are known only when it runs")


@lowers("Pad")
def lower_pad(scope: LoweringScope, node: Node) -> None:
    """Lower to elements around the tensor: one number, or elements of the tensor again."""
    source, output = scope.tensor(node.inputs[0]), scope.tensor(node.outputs[0])
    rank = len(source.shape)
    inputs = [*node.inputs, "", "", ""]
    is_input = "pads" not in node.attributes
    pads = scope.numbers(inputs[1], "pads") if is_input else tuple(attribute(node, "pads", ()))
    axes = scope.numbers(inputs[3], "axes") if inputs[3] else range(rank)
    before = [0] * rank
    if len(pads) != 2 * len(axes):
        raise NotLoweredError("it has not two pads for each axis")
    for index, axis in enumerate(counted_axis(axis_attribute, rank) for axis_attribute in axes):
        before[axis] = pads[index]
        if pads[index] < 0 or pads[index + len(axes)] < 0:
            raise NotLoweredError("it takes elements away")
    mode = attribute(node, "mode", "constant")
    if mode != "constant":
        scope.map(output, Read(source, tuple(_padded_coordinates(source, output, before, mode))))
        return
    if not is_input:
        value: Element = number(float(attribute(node, "value", 0.0)), source.scalar)
    elif inputs[2]:
        value = scope.broadcast(inputs[2], scope.shape(inputs[2]))
    else:
        value = number(0, source.scalar)
    scope.map(output, value)
    coordinates = tuple(Coordinate(((axis, 1),), before[axis]) for axis in range(rank))
    scope.emit(
        Map(output=output, axes=source.shape, value=identity_read(source), coordinates=coordinates)
    )


def _padded_coordinates(
    source: Tensor, output: Tensor, before: Sequence[int], mode: str
) -> Iterator[Coordinate]:
    """Yield for each dimension the source coordinate of an element of the padded tensor."""
    if mode not in {"edge", "reflect", "wrap"}:
        raise NotLoweredError(f"it pads by {mode}")
    for axis, (first, size, wide) in enumerate(
        zip(before, source.shape, output.shape, strict=True)
    ):
        if size == wide:
            yield along(axis)
            continue
        last: Element = SizeValue(size - 1)
        at: Element = Call(Function.SUB, (Position(axis), number(first, Scalar.I64)))
        if mode != "edge":  # periodic: "reflect" runs there and back, "wrap" restarts
            period = SizeValue(size if mode == "wrap" else 2 * size - 2)
            rest = Call(Function.REM, (at, period))
            at = Call(Function.REM, (Call(Function.ADD, (rest, period)), period))
        if mode == "reflect":
            from_end = Call(Function.ABS, (Call(Function.SUB, (last, at)),))
            at = Call(Function.SUB, (last, from_end))
        within = Call(Function.MAX, (Call(Function.MIN, (at, last)), number(0, Scalar.I64)))
        yield Coordinate(value=within)


@lowers("DepthToSpace", "SpaceToDepth")
def lower_depth_to_space(scope: LoweringScope, node: Node) -> None:
    """Lower blocks of channels to blocks of pixels, and the reverse."""
    source, output = scope.tensor(node.inputs[0]), scope.tensor(node.outputs[0])
    block = int(attribute(node, "blocksize", 1))
    to_space = node.op_type == "DepthToSpace"
    deep, wide = (source, output) if to_space else (output, source)
    if len(deep.shape) != 4 or block < 1:
        raise NotLoweredError("it is no batch of images in blocks")
    batch, channels, height, width = deep.shape
    out_channels = wide.shape[1]
    scope.require_equal(channels, out_channels * block * block)
    scope.require_equal(wide.shape[2], height * block)
    scope.require_equal(wide.shape[3], width * block)
    is_crd = attribute(node, "mode", "DCR") == "CRD"
    split = (
        (batch, out_channels, block, block, height, width)
        if is_crd
        else (batch, block, block, out_channels, height, width)
    )
    # axes of the wide form: batch, channel, row, row in block, column, column in block
    order = (0, 1, 3, 5, 2, 4) if is_crd else (0, 3, 5, 1, 2, 4)
    spread = (batch, out_channels, height, block, width, block)
    deep_view = scope.temporary(source.scalar, split, "blocks")
    wide_view = scope.temporary(source.scalar, spread, "pixels")
    if to_space:
        scope.alias(deep_view, source)
        scope.map(wide_view, Read(deep_view, tuple(along(axis) for axis in order)))
        scope.alias(output, wide_view)
    else:
        scope.alias(wide_view, source)
        coordinates = tuple(along(order.index(axis)) for axis in range(6))
        scope.map(deep_view, Read(wide_view, coordinates))
        scope.alias(output, deep_view)


@lowers("Trilu")
def lower_trilu(scope: LoweringScope, node: Node) -> None:
    """Lower to the upper or lower triangle, 0 elsewhere."""
    source, output = scope.tensor(node.inputs[0]), scope.tensor(node.outputs[0])
    rank = len(source.shape)
    if rank < 2:
        raise NotLoweredError("it is no matrix")
    inputs = [*node.inputs, ""]
    diagonal = scope.broadcast(inputs[1], ()) if inputs[1] else number(0, Scalar.I64)
    row, column = Position(rank - 2), Position(rank - 1)
    is_upper = bool(attribute(node, "upper", 1))
    distance = Call(Function.SUB, (column, row))  # row + diagonal may overflow 64 bits
    is_kept = Call(Function.GE if is_upper else Function.LE, (distance, diagonal))
    chosen = Call(Function.SELECT, (is_kept, identity_read(source), number(0, source.scalar)))
    scope.map(output, chosen)


@lowers("Range")
def lower_range(scope: LoweringScope, node: Node) -> None:
    """Lower to start + position * step."""
    output = scope.tensor(node.outputs[0])
    start, step = (widened(scope.broadcast(node.inputs[slot], ())) for slot in (0, 2))
    count = as_kind(Position(0), scalar_of(step))
    value = Call(Function.ADD, (start, Call(Function.MUL, (count, step))))
    scope.map(output, as_kind(value, output.scalar))


@lowers("ConstantOfShape")
def lower_constant_of_shape(scope: LoweringScope, node: Node) -> None:
    """Lower to the same number in every element."""
    output = scope.tensor(node.outputs[0])
    for size in output.shape:
        scope.require_not_negative(size)
    value = attribute(node, "value", None)
    filled = 0 if value is None else value.numpy().reshape(-1)[0].item()
    scope.map(output, number(filled, output.scalar))


@lowers("Tile")
def lower_tile(scope: LoweringScope, node: Node) -> None:
    """Lower to repetitions of the tensor, if sizes and repeats are known."""
    source, output = scope.tensor(node.inputs[0]), scope.tensor(node.outputs[0])
    repeats = scope.sizes(node.inputs[1], "repeats")
    if len(repeats) != len(source.shape):
        raise NotLoweredError("it has not one number of repeats for each axis")
    # as (repeat, size) pairs: a broadcast, then an alias
    shape = [size for pair in zip(repeats, source.shape, strict=True) for size in pair]
    spread = scope.temporary(source.scalar, shape, "repeats")
    coordinates = tuple(along(2 * dimension + 1) for dimension in range(len(source.shape)))
    scope.map(spread, Read(source, coordinates))
    scope.alias(output, spread)
