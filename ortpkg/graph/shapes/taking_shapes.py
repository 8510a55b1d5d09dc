"""Shapes of operators that take elements of tensors, or move them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ortpkg.graph.shapes.expression_bounds import is_at_least, is_positive
from ortpkg.graph.shapes.expressions import Size
from ortpkg.graph.shapes.knowledge import MOST_ELEMENTS
from ortpkg.graph.shapes.shape_context import ShapeContext, ShapeError, infers
from ortpkg.graph.shapes.size_operations import floor_divide, larger, smaller
from ortpkg.graph.types import ElementType

_FAR = 1 << 31


@infers("Slice")
def slice_(context: ShapeContext) -> None:
    """Infer sliced sizes; starts, ends, axes and steps are attributes, from opset 10 on inputs."""
    shape = context.shape(0)
    if shape is None:
        return
    if context.version < 10:
        starts: Sequence[Size | None] | None = context.integers("starts")
        ends: Sequence[Size | None] | None = context.integers("ends")
        axes: Sequence[int] | None = context.integers("axes") or None
        steps: Sequence[Size | None] | None = None
        has_axes = axes is not None
        has_steps = False
    else:
        starts, ends = (context.values(slot) for slot in (1, 2))
        axes, steps = context.numbers(3), context.values(4)
        has_axes, has_steps = context.has(3), context.has(4)
    if has_axes and axes is None:
        context.make(0, context.new_sizes(len(shape)))
        return
    count = next(
        (len(parameter) for parameter in (starts, ends, axes) if parameter is not None), None
    )
    count = context.vector_length(1) if count is None and context.version >= 10 else count
    if count is None:
        context.make(0, context.new_sizes(len(shape)))
        return
    positions = [
        context.axis(axis, len(shape)) for axis in (axes if axes is not None else range(count))
    ]
    if any(
        parameter is not None and len(parameter) != len(positions)
        for parameter in (starts, ends, steps)
    ):
        raise ShapeError(f"{context.node}: as many starts, ends, axes and steps are needed")
    made = list(shape)
    for index, axis in enumerate(positions):
        start, end = (
            None if parameter is None else parameter[index] for parameter in (starts, ends)
        )
        step = (None if steps is None else steps[index]) if has_steps else 1
        made[axis] = sliced_size(context, shape[axis], start, end, step)
    context.make(
        0,
        made,
        None,
        _sliced_elements(context, starts, ends, steps if has_steps else None, positions),
    )


def sliced_size(
    context: ShapeContext, size: Size, start: Size | None, end: Size | None, step: Size | None
) -> Size:
    """Return the number of elements that a slice takes of an axis, by numpy's rule."""
    if step == 0:
        raise ShapeError(f"{context.node}: a step of 0")
    if not isinstance(step, int) or start is None or end is None:
        return context.new_size()
    if isinstance(size, int) and isinstance(start, int) and isinstance(end, int):
        return len(sliced_range(size, start, end, step))
    if step < 0:
        is_whole = start == -1 or (isinstance(start, int) and start >= _FAR) or start == size - 1
        to_front = isinstance(end, int) and end <= -_FAR
        return (
            context.compute(lambda: floor_divide(size - 1, -step) + 1)
            if is_whole and to_front and is_positive(size)
            else context.new_size()
        )
    first, last = _bounded(context, start, size), _bounded(context, end, size)
    if first is None or last is None:
        return context.new_size()
    return context.compute(lambda: larger(0, floor_divide(last - first + (step - 1), step)))


def sliced_range(size: int, start: int, end: int, step: int) -> range:
    """Return the positions that Slice takes of an axis, mostly as numpy does.

    Going backwards, a start before the axis means its first element.
    """
    first, last, _ = slice(max(start, -size), end, step).indices(size)
    return range(first, last, step)


def _bounded(context: ShapeContext, position: Size, size: Size) -> Size | None:
    """Return a slice's position as a number from 0 to ``size``; None if its sign is unknown."""
    if isinstance(position, int) and position >= _FAR:
        return size
    if is_at_least(position, 0):
        return context.compute(smaller, position, size)
    if is_at_least(0, position) and not is_at_least(position, 0):
        return context.compute(lambda: larger(0, size + position))
    return None


def _sliced_elements(
    context: ShapeContext,
    starts: Sequence[Size | None] | None,
    ends: Sequence[Size | None] | None,
    steps: Sequence[Size | None] | None,
    positions: Sequence[int],
) -> list[Size | None] | None:
    source_elements = context.elements(0)
    if source_elements is None or starts is None or ends is None:
        return None
    ranges: list[Sequence[int]] = [range(size) for size in source_elements.shape]
    for index, axis in enumerate(positions):
        start, end, step = starts[index], ends[index], 1 if steps is None else steps[index]
        if not (isinstance(start, int) and isinstance(end, int) and isinstance(step, int)):
            return None
        ranges[axis] = sliced_range(source_elements.shape[axis], start, end, step)
    return source_elements.moved(lambda element_positions: element_positions[np.ix_(*ranges)])


@infers("Gather")
def gather(context: ShapeContext) -> None:
    shape, indices = context.shape(0), context.shape(1)
    if shape is None or indices is None:
        return
    axis = context.axis(context.attribute("axis", 0), len(shape))
    source_elements, chosen = context.elements(0), context.elements(1)
    elements: list[Size | None] | None = None
    if source_elements is not None and chosen is not None and chosen.numbers is not None:
        size, numbers = source_elements.shape[axis], chosen.numbers
        if any(not -size <= index < size for index in numbers):
            raise ShapeError(f"{context.node}: takes elements {numbers} of {size}")
        if len(numbers) * len(source_elements.values) <= MOST_ELEMENTS * max(size, 1):
            gathered = np.array(numbers, np.int64).reshape(chosen.shape)
            elements = source_elements.moved(
                lambda element_positions: element_positions.take(gathered, axis)
            )
    context.make(0, (*shape[:axis], *indices, *shape[axis + 1 :]), None, elements)


@infers("GatherBlockQuantized", domain="com.microsoft")
def gather_block_quantized(context: ShapeContext) -> None:
    """Infer a Gather whose bytes may hold several numbers, in the type of the scales."""
    shape, indices = context.shape(0), context.shape(1)
    element_type = context.element_type(2)
    if shape is None or indices is None:
        context.make(0, None, element_type)
        return
    axis = context.axis(context.attribute("gather_axis", 0), len(shape))
    bits = context.attribute("bits", 4)
    packed = 8 // bits if context.element_type(0) is ElementType.UINT8 and bits in {2, 4, 8} else 1
    sizes = [
        context.compute(lambda size: size * packed, size) if at == len(shape) - 1 else size
        for at, size in enumerate(shape)
    ]
    context.make(0, (*sizes[:axis], *indices, *sizes[axis + 1 :]), element_type)


@infers("GatherElements")
def gather_elements(context: ShapeContext) -> None:
    context.make(0, context.shape(1))


@infers("GatherND")
def gather_nd(context: ShapeContext) -> None:
    shape, indices = context.shape(0), context.shape(1)
    if shape is None or indices is None or not indices or not isinstance(indices[-1], int):
        return
    batch, depth = context.attribute("batch_dims", 0), indices[-1]
    if batch + depth > len(shape):
        raise ShapeError(
            f"{context.node}: indices of {depth} behind {batch} of {len(shape)} dimensions"
        )
    context.make(0, (*indices[:-1], *shape[batch + depth :]))


@infers("Scatter", "ScatterElements", "ScatterND", "TensorScatter")
def scatter(context: ShapeContext) -> None:
    context.make(0, context.shape(0))


def _depth(context: ShapeContext) -> Size | None:
    """Return the number of classes, possibly with symbols; a constant may be a float."""
    constant = context.constant(1)
    if constant is not None and constant.size == 1 and np.isfinite(constant).all():
        return int(constant.reshape(-1)[0])
    return context.size(1)


@infers("OneHot")
def one_hot(context: ShapeContext) -> None:
    shape, depth = context.shape(0), _depth(context)
    element_type = context.element_type(2)
    if shape is None:
        context.make(0, None, element_type)
        return
    rank = len(shape) + 1
    axis = context.axis(context.attribute("axis", -1), rank)
    if depth is not None and not is_at_least(depth, 0):
        depth = None
    size = context.new_size() if depth is None else depth
    context.make(0, (*shape[:axis], size, *shape[axis:]), element_type)


@infers("DepthToSpace", "SpaceToDepth")
def blocks(context: ShapeContext) -> None:
    shape, block = context.shape(0), context.attribute("blocksize", 0)
    if shape is None:
        return
    if len(shape) != 4 or block < 1:
        raise ShapeError(f"{context.node}: 4 dimensions and blocks of 1 or more are needed")
    batch, channels, height, width = shape
    if context.node.op_type == "DepthToSpace":
        made = (batch, _quotient(context, channels, block * block), height * block, width * block)
    else:
        made = (
            batch,
            channels * (block * block),
            _quotient(context, height, block),
            _quotient(context, width, block),
        )
    context.make(0, made)


def _quotient(context: ShapeContext, size: Size, by: int) -> Size:
    if isinstance(size, int) and size % by:
        raise ShapeError(f"{context.node}: {size} elements in blocks of {by}")
    return context.compute(floor_divide, size, by)
