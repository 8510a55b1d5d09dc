"""Shapes of operators that join tensors, and split them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from ortpkg.graph.load_control import polled_parts
from ortpkg.graph.shapes.expressions import Size, TooLargeError
from ortpkg.graph.shapes.knowledge import MOST_ELEMENTS
from ortpkg.graph.shapes.shape_context import ShapeContext, ShapeError, infers
from ortpkg.graph.shapes.size_operations import divide_exactly, floor_divide, larger, smaller, total


@infers("Concat")
def concat(context: ShapeContext) -> None:
    shapes = [context.shape(slot) for slot in range(len(context.node.inputs))]
    known_shapes = [shape for shape in shapes if shape is not None]
    if not known_shapes:
        return
    rank = len(known_shapes[0])
    if any(len(shape) != rank for shape in known_shapes):
        raise ShapeError(
            f"{context.node}: joins tensors of"
            f" {sorted({len(shape) for shape in known_shapes})} dimensions"
        )
    axis = context.axis(context.attribute("axis", 1), rank)
    made: list[Size] = []
    for position in range(rank):
        sizes = [shape[position] for shape in known_shapes]
        if position == axis:
            made.append(
                context.compute(total, *sizes)
                if len(known_shapes) == len(shapes)
                else context.new_size()
            )
        else:
            made.append(_agreed(context, sizes))
    elements: list[Size | None] | None = None
    if rank == 1 and isinstance(made[0], int) and made[0] <= MOST_ELEMENTS:
        elements = [value for slot in range(len(shapes)) for value in context.vector_elements(slot)]
    context.make(0, made, None, elements)


def _agreed(context: ShapeContext, sizes: Sequence[Size]) -> Size:
    """Return the single size that all of these must have."""
    numbers = {size for size in sizes if isinstance(size, int)}
    if len(numbers) > 1:
        raise ShapeError(f"{context.node}: sizes {sorted(numbers)} must be equal")
    return next(iter(numbers)) if numbers else sizes[0]


@infers("QLinearConcat", domain="com.microsoft")
def quantized_concat(context: ShapeContext) -> None:
    """Infer from (scale, zero point of the result, then tensor, scale, zero point each)."""
    shapes = [context.shape(slot) for slot in range(2, len(context.node.inputs), 3)]
    known_shapes = [shape for shape in shapes if shape is not None]
    element_type = context.element_type(2)
    if len(known_shapes) < len(shapes) or len({len(shape) for shape in known_shapes}) != 1:
        context.make(0, None, element_type)
        return
    axis = context.axis(context.attribute("axis", 0), len(known_shapes[0]))
    made = [
        context.compute(total, *sizes) if position == axis else _agreed(context, sizes)
        for position, sizes in enumerate(zip(*known_shapes, strict=True))
    ]
    context.make(0, made, element_type)


@infers("Split")
def split(context: ShapeContext) -> None:
    """Infer parts whose sizes are an attribute (to 11), an input (from 13, or 1), or all equal."""
    shape, count = context.shape(0), len(context.node.outputs)
    if shape is None:
        return
    axis = context.axis(context.attribute("axis", 0), len(shape))
    sizes = split_sizes(context, shape[axis], count)
    parts = _parts(context, sizes)
    for slot, size in enumerate(polled_parts(sizes)):
        made = (*shape[:axis], size, *shape[axis + 1 :])
        context.make(slot, made, None, None if parts is None else parts[slot])


def split_sizes(context: ShapeContext, whole: Size, count: int) -> list[Size]:
    """Return the sizes of ``count`` parts of an axis of size ``whole``."""
    sizes: Sequence[Size | None] | None = context.integers("split")
    if context.has(1):
        elements = context.elements(1)
        sizes = [None] * count if elements is None else elements.values
    if sizes:
        if len(sizes) != count:
            raise ShapeError(f"{context.node}: sizes of {len(sizes)} parts for {count} outputs")
        total = sum(size for size in sizes if isinstance(size, int))
        if (
            isinstance(whole, int)
            and all(isinstance(size, int) for size in sizes)
            and total != whole
        ):
            raise ShapeError(f"{context.node}: parts of {total} elements in all, of {whole}")
        return [context.new_size() if size is None else size for size in sizes]
    if isinstance(whole, int):
        if whole % count and context.version < 18:
            raise ShapeError(f"{context.node}: {whole} elements in {count} equal parts")
        return _uneven_parts(whole, -(-whole // count), count)
    exact = divide_exactly(whole, count)
    if exact is not None or context.version < 18:
        return [context.compute(floor_divide, whole, count) if exact is None else exact] * count
    part = context.compute(floor_divide, whole + (count - 1), count)
    try:
        return _uneven_parts(whole, part, count)
    except TooLargeError:
        return [part, *context.new_sizes(count - 1)]


def _uneven_parts(whole: Size, part: Size, count: int) -> list[Size]:
    """Return parts of size ``part`` until nothing is left; the last ones may be smaller or 0."""
    if count == 2:
        return [part, whole - part]
    later = polled_parts(range(1, count))
    return [part, *(smaller(part, larger(0, whole - part * before)) for before in later)]


def _parts(context: ShapeContext, sizes: Sequence[Size]) -> list[list[Size | None]] | None:
    """Return the elements of each part of a followed vector, for parts of these sizes."""
    elements = context.elements(0)
    numbers = [size for size in sizes if isinstance(size, int)]
    if elements is None or len(elements.shape) != 1 or len(numbers) < len(sizes):
        return None
    if any(number < 0 for number in numbers):
        raise ShapeError(f"{context.node}: a part of {min(numbers)} elements")
    rest = iter(elements.values)
    return [list(islice(rest, number)) for number in numbers]
