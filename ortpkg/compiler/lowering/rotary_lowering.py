"""Lowers RotaryEmbedding, which rotates pairs of features by the angle of their position."""

from __future__ import annotations

from ortpkg.compiler.lowering.attention_lowering import Heads, heads_of
from ortpkg.compiler.lowering.gathering_lowering import gathered_coordinate
from ortpkg.compiler.lowering.lowering_registry import MICROSOFT_DOMAIN, lowers
from ortpkg.compiler.lowering.lowering_scope import LoweringScope, NotLoweredError, attribute
from ortpkg.compiler.tensor_ir.elements import (
    Call,
    Coordinate,
    Element,
    Function,
    Position,
    Read,
    Tensor,
    along,
)
from ortpkg.compiler.tensor_ir.operations import Map
from ortpkg.graph.graph import Node
from ortpkg.graph.shapes.expressions import Size
from ortpkg.graph.shapes.size_operations import divide_exactly


@lowers("RotaryEmbedding")
def lower_rotary_embedding(scope: LoweringScope, node: Node) -> None:
    """Lower ONNX's operator; caches have a row for each position, or token without positions."""
    inputs = [*node.inputs, ""]
    _rotate(scope, node, (inputs[1], inputs[2]), inputs[3])


@lowers("RotaryEmbedding", domain=MICROSOFT_DOMAIN)
def lower_microsoft_rotary_embedding(scope: LoweringScope, node: Node) -> None:
    """Lower Microsoft's operator; input 1 has the position of each token, or of the first."""
    _rotate(scope, node, (node.inputs[2], node.inputs[3]), node.inputs[1])


def _rotate(scope: LoweringScope, node: Node, caches: tuple[str, str], positions: str) -> None:
    output = scope.tensor(node.outputs[0])
    cosines, sines = (scope.tensor(name) for name in caches)
    turned = cosines.shape[-1]
    if not isinstance(turned, int):
        raise NotLoweredError("how many features it turns is known only when it runs")
    source = _heads(scope, node, turned)
    target = output
    if source.is_flat:
        target = scope.temporary(output.scalar, source.tensor.shape, "turned")
    row = _row(scope, source, cosines, positions)
    for left, right in zip(cosines.shape, sines.shape, strict=True):
        scope.require_equal(left, right)
    cosine, sine = (Read(table, (*row, along(3))) for table in (cosines, sines))
    step, distance = (2, 1) if attribute(node, "interleaved", 0) else (1, turned)
    pieces = [Coordinate(((3, step),), offset) for offset in (0, distance)]
    first, second = (Read(source.tensor, _coordinates(source, piece)) for piece in pieces)
    for piece, function, one, other in (
        (pieces[0], Function.SUB, cosine, sine),
        (pieces[1], Function.ADD, sine, cosine),
    ):
        products = (Call(Function.MUL, (first, one)), Call(Function.MUL, (second, other)))
        _write(scope, source, target, turned, Call(function, products), piece)
    left_over = source.sizes[3] - 2 * turned
    if left_over != 0:
        rest = Coordinate(((3, 1),), 2 * turned)
        value = Read(source.tensor, _coordinates(source, rest))
        _write(scope, source, target, left_over, value, rest)
    if source.is_flat:
        scope.alias(output, target)


def _heads(scope: LoweringScope, node: Node, turned: int) -> Heads:
    """Return the input by heads; without a head count, all of a head is rotated."""
    count: Size = int(attribute(node, "num_heads", 0))
    if count == 0:
        heads = divide_exactly(scope.shape(node.inputs[0])[-1], 2 * turned) if turned else None
        if heads is None:
            raise NotLoweredError("how many heads it has is known only when it runs")
        count = heads
    return heads_of(scope, node.inputs[0], count)


def _row(
    scope: LoweringScope, source: Heads, cache: Tensor, positions_name: str
) -> tuple[Coordinate, ...]:
    """Return the coordinates of a token's row in a cache: its position, or its index."""
    batch, _, length, _ = source.sizes
    if not positions_name:
        is_shared = scope.is_repeated(cache.shape[0], batch)
        scope.require_equal(cache.shape[1], length)
        return (Coordinate() if is_shared else along(0), along(2))
    positions = scope.tensor(positions_name)
    rank = len(positions.shape)
    if rank < 2:
        if rank:
            scope.require_equal(positions.shape[0], 1)
        index: Element = Call(Function.ADD, (Read(positions, (Coordinate(),) * rank), Position(2)))
    else:
        is_shared = scope.is_repeated(positions.shape[0], batch)
        scope.require_equal(positions.shape[1], length)
        index = Read(positions, (Coordinate() if is_shared else along(0), along(2)))
    scope.report_wrong_indices(index, (batch, 1, length), cache.shape[0])
    return (gathered_coordinate(index, cache.shape[0]),)


def _coordinates(heads: Heads, feature: Coordinate) -> tuple[Coordinate, ...]:
    """Return the coordinates of a feature, over axes of batch, heads, tokens and features."""
    return heads.coordinates(along(0), along(1), along(2), feature)


def _write(
    scope: LoweringScope,
    heads: Heads,
    target: Tensor,
    count: Size,
    value: Element,
    piece: Coordinate,
) -> None:
    """Write some features of each head."""
    axes = (*heads.sizes[:3], count)
    scope.emit(Map(output=target, axes=axes, value=value, coordinates=_coordinates(heads, piece)))
