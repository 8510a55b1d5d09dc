"""Operators that join tensors, and split them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from ortpkg.graph.load_control import polled_parts
from ortpkg.shapes.expressions import Size, TooLargeError
from ortpkg.shapes.knowledge import MOST_ELEMENTS
from ortpkg.shapes.shape_context import ShapeContext, ShapeError, infers
from ortpkg.shapes.size_operations import divide_exactly, floor_divide, larger, smaller, total


@infers("Concat")
def concat(context: ShapeContext) -> None:
    shapes = [context.shape(slot) for slot in range(len(context.node.inputs))]
    known = [shape for shape in shapes if shape is not None]
    if not known:
        return
    rank = len(known[0])
    if any(len(shape) != rank for shape in known):
        raise ShapeError(
            f"{context.node}: joins tensors of {sorted({len(shape) for shape in known})} dimensions"
        )
    axis = context.axis(context.attribute("axis", 1), rank)
    made: list[Size] = []
    for position in range(rank):
        sizes = [shape[position] for shape in known]
        if position == axis:
            made.append(
                context.compute(total, *sizes) if len(known) == len(shapes) else context.new_size()
            )
        else:
            made.append(_agreed(context, sizes))
    elements: list[Size | None] | None = None
    if rank == 1 and isinstance(made[0], int) and made[0] <= MOST_ELEMENTS:
        elements = [value for slot in range(len(shapes)) for value in context.vector_elements(slot)]
    context.make(0, made, None, elements)


def _agreed(context: ShapeContext, sizes: Sequence[Size]) -> Size:
    """The one size that all of these must be."""
    numbers = {size for size in sizes if isinstance(size, int)}
    if len(numbers) > 1:
        raise ShapeError(f"{context.node}: sizes {sorted(numbers)} must be equal")
    return next(iter(numbers)) if numbers else sizes[0]


@infers("QLinearConcat", domain="com.microsoft")
def quantized_concat(context: ShapeContext) -> None:
    """Inputs (scale, zero point of the result, then tensor, scale, zero point each)."""
    shapes = [context.shape(slot) for slot in range(2, len(context.node.inputs), 3)]
    known = [shape for shape in shapes if shape is not None]
    element_type = context.element_type(2)
    if len(known) < len(shapes) or len({len(shape) for shape in known}) != 1:
        context.make(0, None, element_type)
        return
    axis = context.axis(context.attribute("axis", 0), len(known[0]))
    made = [
        context.compute(total, *sizes) if position == axis else _agreed(context, sizes)
        for position, sizes in enumerate(zip(*known, strict=True))
    ]
    context.make(0, made, element_type)


@infers("Split")
def split(context: ShapeContext) -> None:
    """Sizes of parts: an attribute (to 11), an input (from 13, perhaps in 1), else all equal."""
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
    """The sizes of ``count`` parts of an axis of ``whole``."""
    sizes: Sequence[Size | None] | None = context.integers("split")
    if context.has(1):
        found = context.elements(1)
        sizes = [None] * count if found is None else found.values
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
    each = context.compute(floor_divide, whole + (count - 1), count)
    try:
        return _uneven_parts(whole, each, count)
    except TooLargeError:
        return [each, *context.new_sizes(count - 1)]


def _uneven_parts(whole: Size, each: Size, count: int) -> list[Size]:
    """Parts of ``each`` until nothing is left; what is left at last may be less, or nothing."""
    if count == 2:
        return [each, whole - each]
    later = polled_parts(range(1, count))
    return [each, *(smaller(each, larger(0, whole - each * before)) for before in later)]


def _parts(context: ShapeContext, sizes: Sequence[Size]) -> list[list[Size | None]] | None:
    """The elements of each part of a followed vector, which is split into parts of these sizes."""
    given = context.elements(0)
    numbers = [size for size in sizes if isinstance(size, int)]
    if given is None or len(given.shape) != 1 or len(numbers) < len(sizes):
        return None
    if any(number < 0 for number in numbers):
        raise ShapeError(f"{context.node}: a part of {min(numbers)} elements")
    rest = iter(given.values)
    return [list(islice(rest, number)) for number in numbers]
