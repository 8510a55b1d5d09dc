"""Random nodes that move elements: other shapes, orders and pieces."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tests.fuzz.machine_code.graph_maker import GraphMaker, Size, UnfitError, Value

_ANY = ("float", "float", "float", "narrow", "integer", "code", "bool", "double")


def _with_axes(graph: GraphMaker, least: int = 1) -> Value:
    value = graph.chosen(*_ANY)
    if value.rank < least:
        raise UnfitError
    return value


def _numbers(graph: GraphMaker, *numbers: int) -> Value:
    return graph.constant(np.array(numbers, np.int64))


def transpose(graph: GraphMaker) -> None:
    """Axes in another order."""
    value = _with_axes(graph)
    order = graph.choose.sample(range(value.rank), value.rank)
    graph.add("Transpose", [value], is_exact=True, perm=order)


def reshape(graph: GraphMaker) -> None:
    """Axes joined, split, added or taken away."""
    value = _with_axes(graph)
    chance = graph.choose.random()
    if chance < 0.2:
        graph.add("Flatten", [value], is_exact=True, axis=graph.choose.randint(0, value.rank))
    elif chance < 0.35:
        ones = [axis for axis in range(value.rank) if value.fixed(axis) == 1]
        if not ones:
            raise UnfitError
        graph.add("Squeeze", [value, _numbers(graph, graph.choose.choice(ones))], is_exact=True)
    elif chance < 0.5:
        at = graph.choose.randint(0, value.rank)
        graph.add("Unsqueeze", [value, _numbers(graph, at)], is_exact=True)
    elif chance < 0.75:
        # axes before one joined, the others as they are (0), at most one of them open
        at = graph.choose.randrange(value.rank)
        target = [0] * at + [-1]
        graph.add("Reshape", [value, _numbers(graph, *target)], is_exact=True)
    else:
        _split_axis(graph, value)


def _split_axis(graph: GraphMaker, value: Value) -> None:
    axis = graph.choose.randrange(value.rank)
    size = value.fixed(axis)
    factors = [each for each in (2, 3, 4, 8) if size and size % each == 0]
    if not factors or size is None:
        raise UnfitError
    factor = graph.choose.choice(factors)
    target = [0] * axis + [factor, size // factor]
    for at in range(axis + 1, value.rank):
        found = value.fixed(at)
        target.append(-1 if found is None else found)
    graph.add("Reshape", [value, _numbers(graph, *target)], is_exact=True)


def reshape_by_shape(graph: GraphMaker) -> None:
    """As models do that join heads: the first axes of a Shape, and -1 for what is behind."""
    value = _with_axes(graph, 2)
    shape = graph.add("Shape", [value], is_exact=True)
    kept = graph.choose.randrange(1, value.rank)
    first = graph.add(
        "Slice", [shape, _numbers(graph, 0), _numbers(graph, kept)], is_exact=True
    )  # fmt: skip
    target = graph.add("Concat", [first, _numbers(graph, -1)], is_exact=True, axis=0)
    graph.add("Reshape", [value, target], is_exact=True)


def expand(graph: GraphMaker) -> None:
    """Broadcast to sizes, of which some may come from the shape of another value."""
    value = graph.chosen(*_ANY)
    if graph.choose.random() < 0.4:
        other = graph.chosen(*_ANY)
        shape = graph.add("Shape", [other], is_exact=True)
        graph.add("Expand", [value, shape], is_exact=True)
        return
    wanted = [value.fixed(axis) for axis in range(value.rank)]
    sizes = [
        (graph.size(most=9, is_fixed=True)[0] if each == 1 else each or 1) for each in wanted
    ]  # fmt: skip
    front = [graph.size(most=5, is_fixed=True)[0]] if graph.choose.random() < 0.4 else []
    graph.add("Expand", [value, _numbers(graph, *front, *sizes)], is_exact=True)


def concat(graph: GraphMaker) -> None:
    """Pieces one after the other, a value twice among them."""
    value = _with_axes(graph)
    axis = graph.choose.randrange(value.rank)
    pieces = [value]
    for _ in range(graph.choose.randint(1, 3)):
        shape: list[Size] = list(value.shape)
        if graph.choose.random() < 0.6:
            shape[axis] = graph.size(most=20)
        same = graph.choose.random() < 0.25
        pieces.append(value if same else graph.fresh(value.dtype, shape))
    graph.choose.shuffle(pieces)
    graph.add("Concat", pieces, is_exact=True, axis=axis - value.rank)


def split(graph: GraphMaker) -> None:
    """Pieces along an axis of known size."""
    value = _with_axes(graph)
    axis = graph.choose.randrange(value.rank)
    size = value.fixed(axis)
    if not size:
        raise UnfitError
    if graph.choose.random() < 0.5:
        cuts = sorted(graph.choose.randint(0, size) for _ in range(graph.choose.randint(1, 2)))
        parts = np.diff([0, *cuts, size])
        sizes = _numbers(graph, *parts.tolist())
        graph.add("Split", [value, sizes], outputs=len(parts), is_exact=True, axis=axis)
    else:
        count = graph.choose.randint(1, min(size, 3))
        graph.add(
            "Split", [value], outputs=count, is_exact=True, axis=axis, num_outputs=count
        )  # fmt: skip


def slices(graph: GraphMaker) -> None:
    """Parts of some axes, in steps of either sign."""
    value = _with_axes(graph)
    axes = graph.choose.sample(range(value.rank), graph.choose.randint(1, min(value.rank, 2)))
    bounds: list[tuple[int, int, int]] = []
    for axis in axes:
        size = value.fixed(axis)
        step = graph.choose.choice((1, 1, 1, 2, 3, -1, -1, -2))
        if size is None:
            bounds.append((0, 1 << 31, abs(step)) if step > 0 else (-1, -(1 << 31), step))
            continue
        span = sorted(graph.choose.randint(-size - 2, size + 2) for _ in range(2))
        start, end = span if step > 0 else reversed(span)
        bounds.append((start, end, step))
    starts, ends, steps = zip(*bounds, strict=True)
    given = [value, *(_numbers(graph, *each) for each in (starts, ends, axes, steps))]
    graph.add("Slice", given, is_exact=True)


def gather(graph: GraphMaker) -> None:
    """Slices by indices that are within the axis, of either sign."""
    value = _with_axes(graph)
    axis = graph.choose.randrange(value.rank)
    least = min(value.shape[axis])
    if least == 0:
        raise UnfitError
    shape = [graph.size(most=9) for _ in range(graph.choose.randint(0, 2))]
    kind = graph.choose.choice((np.int64, np.int32))
    low = -least if graph.choose.random() < 0.4 else 0
    indices = graph.fresh(kind, shape, least=low, most=least - 1)
    graph.add("Gather", [value, indices], is_exact=True, axis=axis)


def pad(graph: GraphMaker) -> None:
    """A constant around the elements."""
    value = graph.chosen("float", "float", "narrow", "integer")
    if not value.rank:
        raise UnfitError
    pads = [graph.choose.choice((0, 0, 1, 2, 5)) for _ in range(2 * value.rank)]
    given: list[Value | None] = [value, _numbers(graph, *pads)]
    if graph.choose.random() < 0.5:
        given.append(graph.constant(np.asarray(3).astype(value.dtype)))
    graph.add("Pad", given, is_exact=True)


def blocks(graph: GraphMaker) -> None:
    """Channels to pixels, or pixels to channels."""
    value = graph.chosen(*_ANY, rank=4)
    if graph.choose.random() < 0.5:
        mode = graph.choose.choice(("DCR", "CRD"))
        graph.add("DepthToSpace", [value], is_exact=True, blocksize=2, mode=mode)
    else:
        graph.add("SpaceToDepth", [value], is_exact=True, blocksize=graph.choose.choice((1, 2, 3)))


def triangle(graph: GraphMaker) -> None:
    """What is above or below a diagonal."""
    value = _with_axes(graph, 2)
    given = [value]
    if graph.choose.random() < 0.6:
        given.append(graph.constant(np.asarray(graph.choose.randint(-3, 3), np.int64)))
    graph.add("Trilu", given, is_exact=True, upper=graph.choose.randrange(2))


def tile(graph: GraphMaker) -> None:
    """The elements again and again."""
    value = _with_axes(graph)
    repeats = [graph.choose.choice((1, 1, 2, 3)) for _ in range(value.rank)]
    if math.prod(repeats) > 12:
        raise UnfitError
    graph.add("Tile", [value, _numbers(graph, *repeats)], is_exact=True)


def filled(graph: GraphMaker) -> None:
    """One number in the shape of another value."""
    shape = graph.add("Shape", [graph.chosen(*_ANY)], is_exact=True)
    graph.add("ConstantOfShape", [shape], is_exact=True)


MOVING: dict[Callable[[GraphMaker], None], int] = {
    transpose: 5, reshape: 4, reshape_by_shape: 2, expand: 2, concat: 4, split: 3, slices: 5,
    gather: 4, pad: 3, blocks: 2, triangle: 1, tile: 1, filled: 1,
}  # fmt: skip
