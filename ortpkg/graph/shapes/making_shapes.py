"""Shapes of operators that make tensors from sizes and constants, or enlarge them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ortpkg.graph.shapes.expressions import Size
from ortpkg.graph.shapes.knowledge import MOST_ELEMENTS, KnownTensor
from ortpkg.graph.shapes.shape_context import ShapeContext, ShapeError, constant_knowledge, infers
from ortpkg.graph.shapes.size_operations import floor_divide, larger, product, total
from ortpkg.graph.types import ElementType

_BATCH_AND_CHANNELS = 2


@infers("Pad")
def pad(context: ShapeContext) -> None:
    """Infer padded sizes; pads are an attribute, from opset 11 on an input, axes from 18 on."""
    shape = context.shape(0)
    if shape is None:
        return
    if context.version < 11:
        pads: Sequence[Size | None] | None = (
            context.integers("pads") or context.integers("paddings") or None
        )
    else:
        pads = context.values(1)
    axes = context.numbers(3) if context.has(3) else range(len(shape))
    if pads is None or axes is None:
        context.make(0, context.new_sizes(len(shape)))
        return
    if len(pads) != 2 * len(axes):
        raise ShapeError(f"{context.node}: {len(pads)} pads for {len(axes)} axes")
    made = list(shape)
    for index, axis in enumerate(axes):
        before, after = pads[index], pads[len(axes) + index]
        position = context.axis(axis, len(shape))
        if before is None or after is None:
            made[position] = context.new_size()
        else:
            made[position] = context.compute(total, shape[position], before, after)
    context.make(0, made)


#: Attribute of a Constant → type of the attribute.
_CONSTANT_KINDS = {
    "value": "TENSOR",
    "sparse_value": "SPARSE_TENSOR",
    "value_int": "INT",
    "value_ints": "INTS",
    "value_float": "FLOAT",
    "value_floats": "FLOATS",
    "value_string": "STRING",
    "value_strings": "STRINGS",
}


@infers("Constant")
def constant(context: ShapeContext) -> None:
    """Infer a Constant node, from whichever attribute it has."""
    for name in context.node.attributes:
        if name not in _CONSTANT_KINDS:
            continue
        value = context.optional(name, _CONSTANT_KINDS[name])
        match name:
            case "value_int" | "value_float":
                is_whole = name == "value_int"
                context.make(
                    0,
                    (),
                    ElementType.INT64 if is_whole else ElementType.FLOAT,
                    [value] if is_whole else None,
                )
            case "value_ints":
                context.make(0, (len(value),), ElementType.INT64, list(value))
            case "value_floats":
                context.make(0, (len(value),), ElementType.FLOAT)
            case "value_string":
                context.make(0, (), ElementType.STRING)
            case "value_strings":
                context.make(0, (len(value),), ElementType.STRING)
            case "value" | "sparse_value":
                context.make_known(0, constant_knowledge(value))


@infers("ConstantOfShape")
def constant_of_shape(context: ShapeContext) -> None:
    """Infer zeros, or the attribute's single element, in the shape of the input's elements."""
    wanted, value = context.elements(0), context.optional("value", "TENSOR")
    element_type = ElementType.FLOAT if value is None else value.element_type
    if wanted is None:
        rank = context.vector_length(0)
        context.make(0, None if rank is None else context.new_sizes(rank), element_type)
        return
    # a negative size fails in a run
    sizes = [context.new_size() if size is None else size for size in wanted]
    counts = [size for size in sizes if isinstance(size, int)]
    elements: list[Size | None] | None = None
    if element_type in {ElementType.INT64, ElementType.INT32} and len(counts) == len(sizes):
        count = math.prod(counts)
        filling = value.numpy().reshape(-1)
        if count <= MOST_ELEMENTS and filling.size == 1:
            elements = [int(filling[0])] * count
    context.make(0, sizes, element_type, elements)


#: Whole numbers below it are exact as doubles.
_MOST_EXACT = 1 << 53


@infers("Range")
def range_(context: ShapeContext) -> None:
    """Infer the number of elements; their type is that of the inputs."""
    element_type = context.element_type(0)
    if element_type in {ElementType.INT64, ElementType.INT32, ElementType.INT16}:
        start, limit, step = (context.size(slot) for slot in range(3))
        if isinstance(start, int) and isinstance(limit, int) and isinstance(step, int) and step:
            count = max(0, -((start - limit) // step))  # len(range(...)) ends at 2^63
            elements = range(start, limit, step) if count <= MOST_ELEMENTS else None
            context.make(0, (count,), element_type, elements)
        elif start is not None and limit is not None and isinstance(step, int) and step > 0:
            length = context.compute(
                lambda: larger(0, floor_divide(limit - start + (step - 1), step))
            )
            context.make(0, (length,), element_type)
        else:
            context.make(0, (context.new_size(),), element_type)
        return
    context.make(0, (_steps_of_floats(context),), element_type)


def _steps_of_floats(context: ShapeContext) -> Size:
    """Return the number of elements of a Range over floats; sizes cast to float count as whole."""
    constants = [context.constant(slot) for slot in range(3)]
    numbers = [
        None if constant is None or constant.size != 1 else float(constant.reshape(-1)[0])
        for constant in constants
    ]
    start, limit, step = numbers
    if start is not None and limit is not None and step:
        if all(map(math.isfinite, (start, limit, step))):
            return max(math.ceil((limit - start) / step), 0)
        return context.new_size()
    bounds = [
        _whole(context.tensor(slot), number) for slot, number in enumerate((start, limit, step))
    ]
    first, last, width = bounds
    if first is None or last is None or not isinstance(width, int) or width <= 0:
        return context.new_size()
    return context.compute(lambda: larger(0, floor_divide(last - first + (width - 1), width)))


def _whole(tensor: KnownTensor | None, number: float | None) -> Size | None:
    """Return a float as a whole number, if it is known to be one."""
    if number is not None:
        return int(number) if number.is_integer() and abs(number) < _MOST_EXACT else None
    return None if tensor is None else tensor.count


@infers("EyeLike")
def eye_like(context: ShapeContext) -> None:
    context.make(0, context.shape(0), context.chosen_type("dtype", context.element_type(0)))


@infers("CenterCropPad")
def center_crop_pad(context: ShapeContext) -> None:
    shape, wanted = context.shape(0), context.elements(1)
    if shape is None:
        return
    axes = context.integers("axes") or range(len(shape))
    made = list(shape)
    for index, axis in enumerate(axes):
        value = None if wanted is None or index >= len(wanted.values) else wanted.values[index]
        made[context.axis(axis, len(shape))] = context.new_size() if value is None else value
    context.make(0, made)


@infers("Col2Im")
def col2im(context: ShapeContext) -> None:
    """Infer (N, C, *image) from (N, C * elements of a block, L)."""
    shape, image, block = context.shape(0), context.elements(1), context.numbers(2)
    rank = context.vector_length(1)
    if rank is None and image is None:
        return
    spatial = (
        context.new_sizes(rank or 0)
        if image is None
        else [context.new_size() if size is None else size for size in image]
    )
    if shape is None or len(shape) < _BATCH_AND_CHANNELS:  # a run reports the error
        context.make(0, (*context.new_sizes(_BATCH_AND_CHANNELS), *spatial))
        return
    channels: Size = context.new_size()
    if block is not None and 0 not in block:
        count = context.compute(lambda: product(list(block)))
        channels = context.compute(floor_divide, shape[1], count)
    context.make(0, (shape[0], channels, *spatial))
