"""Shapes of operators that keep all elements, or repeat them, in another shape."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ortpkg.graph.shapes.expression_bounds import is_at_least, is_zero_whenever
from ortpkg.graph.shapes.expressions import Size
from ortpkg.graph.shapes.knowledge import MOST_ELEMENTS, Sizes
from ortpkg.graph.shapes.shape_context import ShapeContext, ShapeError, infers
from ortpkg.graph.shapes.size_operations import (
    broadcast,
    divide_exactly,
    either,
    floor_divide,
    product,
)


@infers("Reshape")
def reshape(context: ShapeContext) -> None:
    """Infer the new shape: 0 keeps an axis's size, -1 takes the rest."""
    input_shape = context.shape(0)
    if context.version < 5:
        wanted: Sequence[Size | None] | None = context.integers("shape")
    else:
        elements = context.elements(1)
        wanted = None if elements is None else elements.values
    if wanted is None:
        rank = context.vector_length(1)
        context.make(0, None if rank is None else context.new_sizes(rank))
        return
    context.check_rank(len(wanted))
    sizes = _reshaped(context, input_shape, wanted)
    input_elements = context.elements(0)
    context.make(0, sizes, None, None if input_elements is None else input_elements.values)


def _reshaped(
    context: ShapeContext, input_shape: Sizes | None, wanted: Sequence[Size | None]
) -> list[Size]:
    keeps_zero = bool(context.attribute("allowzero", 0))
    made: list[Size | None] = []
    for axis, size in enumerate(wanted):
        if size == 0 and not keeps_zero:
            if input_shape is not None and axis >= len(input_shape):
                raise ShapeError(
                    f"{context.node}: keeps the size of axis {axis} of {len(input_shape)}"
                )
            made.append(None if input_shape is None else input_shape[axis])
        elif isinstance(size, int) and size < -1:
            raise ShapeError(f"{context.node}: {size} is no size")
        elif size is None or size == -1:
            made.append(size)
        else:
            is_size = is_at_least(size, 0) or size in (input_shape or ())
            effective_size = size if keeps_zero else _size_or_kept(context, size, input_shape, axis)
            made.append(effective_size if is_size else None)
    if made.count(-1) > 1:
        raise ShapeError(f"{context.node}: more than one size is left open")
    if keeps_zero and -1 in made and 0 in made:
        made[made.index(-1)] = None  # the rest depends on which sizes of the input are 0
    elif -1 in made:
        made[made.index(-1)] = _remaining_size(context, input_shape, made)
    elif made.count(None) == 1 and input_shape is not None:
        made[made.index(None)] = _remaining_size(
            context, input_shape, [-1 if size is None else size for size in made]
        )
    return [context.new_size() if size is None else size for size in made]


def _size_or_kept(context: ShapeContext, size: Size, input_shape: Sizes | None, axis: int) -> Size:
    """Return ``size``, or if it is 0 the size of ``axis`` in an input that has elements even then.

    If the input has none, or nothing is known about it, ``size`` is returned.
    """
    if isinstance(size, int) or input_shape is None or axis >= len(input_shape):
        return size
    if any(is_zero_whenever(input_size, size) for input_size in input_shape):
        return size
    if is_zero_whenever(context.compute(lambda: product(input_shape)), size):
        return size
    return context.compute(either, size, input_shape[axis])


def _remaining_size(
    context: ShapeContext, input_shape: Sizes | None, made: Sequence[Size | None]
) -> Size | None:
    """Return the number of elements divided by the known sizes."""
    if input_shape is None or None in made:
        return None
    others = [size for size in made if size is not None and size != -1]
    left = list(input_shape)
    for size in list(others):  # equal factors cancel first, since they may be any expression
        if size in left:
            left.remove(size)
            others.remove(size)
    total, divisor = (
        context.compute(lambda: product(left)),
        context.compute(lambda: product(others)),
    )
    if divisor == 0:
        return 0 if total == 0 else None
    if isinstance(total, int) and isinstance(divisor, int):
        if total % divisor:
            raise ShapeError(f"{context.node}: {total} elements do not fill rows of {divisor}")
        return total // divisor
    exact = divide_exactly(total, divisor)
    return context.compute(floor_divide, total, divisor) if exact is None else exact


@infers("Flatten")
def flatten(context: ShapeContext) -> None:
    shape = context.shape(0)
    if shape is None:
        context.make(0, context.new_sizes(2))
        return
    rank, axis = len(shape), context.attribute("axis", 1)
    if not -rank <= axis <= rank:
        raise ShapeError(f"{context.node}: axis {axis} of {rank} dimensions")
    position = axis + rank if axis < 0 else axis
    rows = context.compute(lambda: product(shape[:position]))
    context.make(0, (rows, context.compute(lambda: product(shape[position:]))))


@infers("Squeeze")
def squeeze(context: ShapeContext) -> None:
    """Infer the shape without axes of size 1; axes are an attribute, from opset 13 on an input.

    Without axes, every axis of size 1 is removed.
    """
    shape = context.shape(0)
    chosen: Sequence[int] | None = context.integers("axes") or None
    if context.version >= 13 and context.has(1):
        chosen = context.numbers(1)
        if chosen is None:
            count = context.vector_length(1)
            if shape is not None and count is not None and count <= len(shape):
                context.make(0, context.new_sizes(len(shape) - count))
            return
    if shape is None:
        return
    if chosen is None:
        if all(isinstance(size, int) for size in shape):
            sizes: list[Size] = [size for size in shape if size != 1]
            context.make(0, sizes, None, context.values(0))
        return
    axes = {context.axis(axis, len(shape)) for axis in chosen}
    wrong = [axis for axis in axes if isinstance(shape[axis], int) and shape[axis] != 1]
    if wrong:
        raise ShapeError(f"{context.node}: axis {wrong[0]} has {shape[wrong[0]]} elements")
    made = [size for axis, size in enumerate(shape) if axis not in axes]
    context.make(0, made, None, context.values(0))


@infers("Unsqueeze")
def unsqueeze(context: ShapeContext) -> None:
    shape = context.shape(0)
    axes = context.integers("axes") if context.version < 13 else context.numbers(1)
    if shape is None or axes is None:
        count = context.vector_length(1)
        if shape is not None and count is not None:
            context.make(0, context.new_sizes(len(shape) + count))
        return
    rank = len(shape) + len(axes)
    context.check_rank(rank)
    new = {context.axis(axis, rank) for axis in axes}
    if len(new) < len(axes):
        raise ShapeError(f"{context.node}: an axis stands twice in {tuple(axes)}")
    old = iter(shape)
    context.make(
        0, [1 if axis in new else next(old) for axis in range(rank)], None, context.values(0)
    )


@infers("Transpose")
def transpose(context: ShapeContext) -> None:
    shape = context.shape(0)
    if shape is None:
        return
    order = context.integers("perm") or tuple(reversed(range(len(shape))))
    if sorted(order) != list(range(len(shape))):
        raise ShapeError(f"{context.node}: {tuple(order)} is no order of {len(shape)} axes")
    source_elements = context.elements(0)
    elements = (
        None
        if source_elements is None
        else source_elements.moved(lambda positions: positions.transpose(order))
    )
    context.make(0, [shape[axis] for axis in order], None, elements)


@infers("Expand")
def expand(context: ShapeContext) -> None:
    shape, count = context.shape(0), context.vector_length(1)
    if shape is None or count is None:
        return
    context.check_rank(count)
    wanted = context.vector_elements(1)
    sizes = [
        context.new_size() if value is None or not is_at_least(value, 0) else value
        for value in wanted
    ]
    rank = max(len(shape), len(sizes))
    context.check_rank(rank)
    left = (*(1,) * (rank - len(shape)), *shape)
    right = (*(1,) * (rank - len(sizes)), *sizes)
    try:
        made = [context.compute(broadcast, *pair) for pair in zip(left, right, strict=True)]
    except ValueError as error:
        raise ShapeError(f"{context.node}: {error}") from error
    input_elements = context.elements(0)
    filled = None
    counts = [size for size in made if isinstance(size, int)]
    if (
        input_elements is not None
        and len(input_elements.values) == 1
        and len(counts) == len(made)
        and math.prod(counts) <= MOST_ELEMENTS
    ):
        filled = list(input_elements.values) * math.prod(counts)
    context.make(0, made, None, filled)


@infers("Tile")
def tile(context: ShapeContext) -> None:
    """Infer repeated sizes; version 1 repeats along one axis."""
    shape, counts = context.shape(0), context.elements(1)
    if shape is None:
        return
    if context.version == 1:
        context.make(0, context.new_sizes(len(shape)))
        return
    if counts is None:
        context.make(0, context.new_sizes(len(shape)))
        return
    if len(counts.values) != len(shape):
        raise ShapeError(f"{context.node}: {len(counts.values)} repeats for {len(shape)} axes")
    context.make(
        0,
        [
            context.new_size()
            if count is None
            else context.compute(lambda a, b: a * b, size, count)
            for size, count in zip(shape, counts, strict=True)
        ],
    )
