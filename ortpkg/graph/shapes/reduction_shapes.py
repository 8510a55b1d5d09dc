"""Shapes of reductions, arg-reductions, sorting and counting."""

from __future__ import annotations

from ortpkg.graph.shapes.expressions import Size, TooLargeError
from ortpkg.graph.shapes.knowledge import Sizes
from ortpkg.graph.shapes.shape_context import ShapeContext, ShapeError, infers
from ortpkg.graph.shapes.size_operations import larger, product, smaller
from ortpkg.graph.types import ElementType

_AXES_INPUT_SINCE = 18
_SUM_AXES_INPUT_SINCE = 13


@infers(
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
    "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare",
)  # fmt: skip
def reduce(context: ShapeContext) -> None:
    """Infer a reduction; axes are an attribute, from opset 18 on (ReduceSum: 13) an input.

    No axes means all, or with ``noop_with_empty_axes`` none.
    """
    shape, keeps = context.shape(0), bool(context.attribute("keepdims", 1))
    by_input = context.version >= (
        _SUM_AXES_INPUT_SINCE if context.node.op_type == "ReduceSum" else _AXES_INPUT_SINCE
    )
    if shape is None:
        return
    axes = _axes(context, shape, by_input=by_input)
    if axes is None:
        if keeps:
            context.make(0, context.new_sizes(len(shape)))
        else:
            count = _axis_count(context)
            context.make(
                0, None if count is None else context.new_sizes(max(len(shape) - count, 0))
            )
        return
    made: list[Size] = []
    for axis, size in enumerate(shape):
        if axis not in axes:
            made.append(size)
        elif keeps:
            made.append(1)
    context.make(0, made, None, _reduced_elements(context, axes))


def _axis_count(context: ShapeContext) -> int | None:
    shape = context.shape(1)
    return (
        shape[0]
        if shape is not None and len(shape) == 1 and isinstance(shape[0], int) and shape[0]
        else None
    )


def _axes(context: ShapeContext, shape: Sizes, *, by_input: bool) -> frozenset[int] | None:
    """Return the axes that are reduced; None if unknown."""
    chosen: tuple[int, ...] | None = context.integers("axes")
    if by_input and context.has(1):
        chosen = context.numbers(1)
        if chosen is None:
            return None
    if not chosen:
        is_noop = by_input and context.attribute("noop_with_empty_axes", 0)
        return frozenset() if is_noop else frozenset(range(len(shape)))
    return frozenset(context.axis(axis, len(shape)) for axis in chosen)


def _reduced_elements(context: ShapeContext, axes: frozenset[int]) -> list[Size | None] | None:
    """Return the single element of a followed vector's reduction, such as a product, else None."""
    elements = context.elements(0)
    if (
        elements is None
        or len(elements.shape) != 1
        or axes != {0}
        or elements.sizes is None
        or not elements.sizes
    ):
        return None
    if context.element_type(0) not in {ElementType.INT64, ElementType.INT32}:
        return None
    values = elements.sizes
    try:
        match context.node.op_type:
            case "ReduceProd":
                return [product(values)]
            case "ReduceSum":
                total: Size = 0
                for value in values:
                    total = total + value
                return [total]
            case "ReduceMax" | "ReduceMin":
                choose = larger if context.node.op_type == "ReduceMax" else smaller
                extremum = values[0]
                for value in values[1:]:
                    extremum = choose(extremum, value)
                return [extremum]
            case _:
                return None
    except TooLargeError:
        return None


@infers("ArgMax", "ArgMin")
def arg_reduce(context: ShapeContext) -> None:
    shape = context.shape(0)
    if shape is None:
        return
    axis = context.axis(context.attribute("axis", 0), len(shape))
    reduced_axis = (1,) if context.attribute("keepdims", 1) else ()
    context.make(0, (*shape[:axis], *reduced_axis, *shape[axis + 1 :]), ElementType.INT64)


@infers("TopK")
def top_k(context: ShapeContext) -> None:
    shape = context.shape(0)
    if shape is None:
        context.make(0, None)
        context.make(1, None, ElementType.INT64)
        return
    axis = context.axis(context.attribute("axis", -1), len(shape))
    count: Size | None = context.optional("k", "INT") if context.version < 10 else context.size(1)
    size = shape[axis]
    if isinstance(count, int) and isinstance(size, int) and not 0 <= count <= size:
        raise ShapeError(f"{context.node}: the first {count} of {size}")
    made = (*shape[:axis], context.new_size() if count is None else count, *shape[axis + 1 :])
    context.make(0, made)
    context.make(1, made, ElementType.INT64)


@infers("Unique")
def unique(context: ShapeContext) -> None:
    """Infer an unknown number of unique elements, and inverse indices for all elements."""
    shape, axis, count = context.shape(0), context.optional("axis", "INT"), context.new_size()
    if axis is None:
        context.make(0, (count,))
        inverse: Size = (
            context.compute(lambda: product(shape)) if shape is not None else context.new_size()
        )
    elif shape is None:
        context.make(0, None)
        inverse = context.new_size()
    else:
        position = context.axis(axis, len(shape))
        context.make(0, (*shape[:position], count, *shape[position + 1 :]))
        inverse = shape[position]
    context.make(1, (count,), ElementType.INT64)
    context.make(2, (inverse,), ElementType.INT64)
    context.make(3, (count,), ElementType.INT64)


@infers("NonZero")
def non_zero(context: ShapeContext) -> None:
    """Infer (number of dimensions, number of nonzero elements); a scalar counts as a vector."""
    shape = context.shape(0)
    rank: Size = context.new_size() if shape is None else len(shape)
    numbers = context.numbers(0)
    if numbers is not None and shape is not None and len(shape) == 1:
        positions = [index for index, value in enumerate(numbers) if value]
        context.make(0, (1, len(positions)), ElementType.INT64, positions)
        return
    context.make(0, (rank, context.new_size()), ElementType.INT64)


@infers("NonMaxSuppression")
def non_max_suppression(context: ShapeContext) -> None:
    context.make(0, (context.new_size(), 3), ElementType.INT64)


@infers("Compress")
def compress(context: ShapeContext) -> None:
    shape, axis = context.shape(0), context.optional("axis", "INT")
    if axis is None:
        context.make(0, (context.new_size(),))
    elif shape is not None:
        position = context.axis(axis, len(shape))
        context.make(0, (*shape[:position], context.new_size(), *shape[position + 1 :]))


@infers("Det")
def determinant(context: ShapeContext) -> None:
    shape = context.shape(0)
    if shape is not None:
        if len(shape) < 2:
            raise ShapeError(
                f"{context.node}: a matrix is needed, but the shape has {len(shape)} dimensions"
            )
        context.make(0, shape[:-2])


@infers("Size")
def size_of(context: ShapeContext) -> None:
    shape = context.shape(0)
    count = None if shape is None else context.compute(lambda: product(shape))
    context.make(0, (), ElementType.INT64, None if count is None else [count])


@infers("Shape")
def shape_of(context: ShapeContext) -> None:
    """Infer the sizes from ``start`` to ``end``, which exist from opset 15 on."""
    shape = context.shape(0)
    if shape is None:
        context.make(0, (context.new_size(),), ElementType.INT64)
        return
    rank = len(shape)
    start, end = context.attribute("start", 0), context.attribute("end", rank)
    first, last = (min(max(edge + rank if edge < 0 else edge, 0), rank) for edge in (start, end))
    chosen = shape[first : max(first, last)]
    context.make(0, (len(chosen),), ElementType.INT64, chosen)
