"""Operators that arrange elements anew: their shapes, and the elements of followed tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ortpkg.graph.types import ElementType
from ortpkg.shapes.expressions import (
    Size,
    broadcast,
    divide_exactly,
    floor_divide,
    is_at_least,
    is_positive,
    larger,
    product,
    smaller,
)
from ortpkg.shapes.knowledge import MOST_ELEMENTS, Sizes
from ortpkg.shapes.shape_context import ShapeContext, ShapeError, constant_knowledge, infers


def _vector_length(context: ShapeContext, slot: int) -> int | None:
    """How many elements the input, a vector, has, where that is a known number."""
    shape = context.shape(slot)
    return shape[0] if shape is not None and len(shape) == 1 and isinstance(shape[0], int) else None


# --- shape only ------------------------------------------------------------------------------------------------------


@infers("Reshape")
def reshape(context: ShapeContext) -> None:
    """0 keeps the size of that place, -1 takes what is left."""
    given = context.shape(0)
    if context.version < 5:
        wanted: Sequence[Size | None] | None = context.integers("shape")
    else:
        found = context.elements(1)
        wanted = None if found is None else found.values
    if wanted is None:
        rank = _vector_length(context, 1)
        context.make(0, None if rank is None else context.new_sizes(rank))
        return
    context.check_rank(len(wanted))
    sizes = _reshaped(context, given, wanted)
    own = context.elements(0)
    context.make(0, sizes, None, None if own is None else own.values)


def _reshaped(context: ShapeContext, given: Sizes | None, wanted: Sequence[Size | None]) -> list[Size]:
    keeps_zero = bool(context.attribute("allowzero", 0))
    made: list[Size | None] = []
    for axis, size in enumerate(wanted):
        if size == 0 and not keeps_zero:
            if given is not None and axis >= len(given):
                raise ShapeError(f"{context.node}: keeps the size of axis {axis} of {len(given)}")
            made.append(None if given is None else given[axis])
        elif isinstance(size, int) and size < -1:
            raise ShapeError(f"{context.node}: {size} is no size")
        else:
            made.append(size if size == -1 or size is None or is_at_least(size, 0) else None)
    if made.count(-1) > 1:
        raise ShapeError(f"{context.node}: more than one size is left open")
    if -1 in made:
        made[made.index(-1)] = _what_is_left(context, given, made)
    elif made.count(None) == 1 and given is not None:
        made[made.index(None)] = _what_is_left(context, given, [-1 if size is None else size for size in made])
    return [context.new_size() if size is None else size for size in made]


def _what_is_left(context: ShapeContext, given: Sizes | None, made: Sequence[Size | None]) -> Size | None:
    """All elements, divided by the sizes that are known."""
    if given is None or None in made:
        return None
    others = [size for size in made if size is not None and size != -1]
    left = list(given)
    for size in list(others):  # equal factors go first: they may be anything
        if size in left:
            left.remove(size)
            others.remove(size)
    total, divisor = context.compute(lambda: product(left)), context.compute(lambda: product(others))
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
    """Axes are an attribute, from opset 13 on an input; without them every axis of size 1 goes."""
    shape = context.shape(0)
    given: Sequence[int] | None = context.integers("axes") or None
    if context.version >= 13 and context.has(1):
        given = context.numbers(1)
        if given is None:
            count = _vector_length(context, 1)
            if shape is not None and count is not None and count <= len(shape):
                context.make(0, context.new_sizes(len(shape) - count))
            return
    if shape is None:
        return
    if given is None:
        if all(isinstance(size, int) for size in shape):
            kept: list[Size] = [size for size in shape if size != 1]
            context.make(0, kept, None, _same_elements(context))
        return
    axes = {context.axis(axis, len(shape)) for axis in given}
    wrong = [axis for axis in axes if isinstance(shape[axis], int) and shape[axis] != 1]
    if wrong:
        raise ShapeError(f"{context.node}: axis {wrong[0]} has {shape[wrong[0]]} elements")
    made = [size for axis, size in enumerate(shape) if axis not in axes]
    context.make(0, made, None, _same_elements(context))


def _same_elements(context: ShapeContext) -> tuple[Size | None, ...] | None:
    found = context.elements(0)
    return None if found is None else found.values


@infers("Unsqueeze")
def unsqueeze(context: ShapeContext) -> None:
    shape = context.shape(0)
    axes = context.integers("axes") if context.version < 13 else context.numbers(1)
    if shape is None or axes is None:
        count = _vector_length(context, 1)
        if shape is not None and count is not None:
            context.make(0, context.new_sizes(len(shape) + count))
        return
    rank = len(shape) + len(axes)
    context.check_rank(rank)
    new = {context.axis(axis, rank) for axis in axes}
    if len(new) < len(axes):
        raise ShapeError(f"{context.node}: an axis stands twice in {tuple(axes)}")
    old = iter(shape)
    context.make(0, [1 if axis in new else next(old) for axis in range(rank)], None, _same_elements(context))


@infers("Transpose")
def transpose(context: ShapeContext) -> None:
    shape = context.shape(0)
    if shape is None:
        return
    order = context.integers("perm") or tuple(reversed(range(len(shape))))
    if sorted(order) != list(range(len(shape))):
        raise ShapeError(f"{context.node}: {tuple(order)} is no order of {len(shape)} axes")
    given = context.elements(0)
    kept = given.values if given is not None and len(given.shape) < 2 else None
    context.make(0, [shape[axis] for axis in order], None, kept)


@infers("Expand")
def expand(context: ShapeContext) -> None:
    shape, count = context.shape(0), _vector_length(context, 1)
    if shape is None or count is None:
        return
    context.check_rank(count)
    wanted = _vector_elements(context, 1)
    sizes = [context.new_size() if value is None or not is_at_least(value, 0) else value for value in wanted]
    rank = max(len(shape), len(sizes))
    context.check_rank(rank)
    left = (*(1,) * (rank - len(shape)), *shape)
    right = (*(1,) * (rank - len(sizes)), *sizes)
    try:
        made = [context.compute(broadcast, *pair) for pair in zip(left, right, strict=True)]
    except ValueError as error:
        raise ShapeError(f"{context.node}: {error}") from error
    own = context.elements(0)
    filled = None
    counts = [size for size in made if isinstance(size, int)]
    if own is not None and len(own.values) == 1 and len(counts) == len(made) and math.prod(counts) <= MOST_ELEMENTS:
        filled = list(own.values) * math.prod(counts)
    context.make(0, made, None, filled)


@infers("Tile")
def tile(context: ShapeContext) -> None:
    """Version 1 repeats along one axis."""
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
            context.new_size() if count is None else context.compute(lambda a, b: a * b, size, count)
            for size, count in zip(shape, counts, strict=True)
        ],
    )


# --- joining and splitting -------------------------------------------------------------------------------------------


@infers("Concat")
def concat(context: ShapeContext) -> None:
    shapes = [context.shape(slot) for slot in range(len(context.node.inputs))]
    known = [shape for shape in shapes if shape is not None]
    if not known:
        return
    rank = len(known[0])
    if any(len(shape) != rank for shape in known):
        raise ShapeError(f"{context.node}: joins tensors of {sorted({len(shape) for shape in known})} dimensions")
    axis = context.axis(context.attribute("axis", 1), rank)
    made: list[Size] = []
    for position in range(rank):
        sizes = [shape[position] for shape in known]
        if position == axis:
            made.append(context.compute(_sum, *sizes) if len(known) == len(shapes) else context.new_size())
        else:
            made.append(_agreed(context, sizes))
    elements: list[Size | None] | None = None
    if rank == 1 and isinstance(made[0], int) and made[0] <= MOST_ELEMENTS:
        elements = [value for slot in range(len(shapes)) for value in _vector_elements(context, slot)]
    context.make(0, made, None, elements)


def _vector_elements(context: ShapeContext, slot: int) -> Sequence[Size | None]:
    """The elements of a vector of known length, None for each that is not followed."""
    found = context.elements(slot)
    return (None,) * (_vector_length(context, slot) or 0) if found is None else found.values


def _sum(*sizes: Size) -> Size:
    total: Size = 0
    for size in sizes:
        total = total + size
    return total


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
        context.compute(_sum, *sizes) if position == axis else _agreed(context, sizes)
        for position, sizes in enumerate(zip(*known, strict=True))
    ]
    context.make(0, made, element_type)


@infers("Split")
def split(context: ShapeContext) -> None:
    """Sizes of the parts are an attribute (1: perhaps an input; from 13 on an input), else the parts are equal."""
    shape, count = context.shape(0), len(context.node.outputs)
    if shape is None:
        return
    axis = context.axis(context.attribute("axis", 0), len(shape))
    for slot, size in enumerate(split_sizes(context, shape[axis], count)):
        context.make(slot, (*shape[:axis], size, *shape[axis + 1 :]), None, _part(context, slot, count))


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
        if isinstance(whole, int) and all(isinstance(size, int) for size in sizes) and total != whole:
            raise ShapeError(f"{context.node}: parts of {total} elements in all, of {whole}")
        return [context.new_size() if size is None else size for size in sizes]
    if isinstance(whole, int):
        if whole % count and context.version < 18:
            raise ShapeError(f"{context.node}: {whole} elements in {count} equal parts")
        each = -(-whole // count)
        return [*(each,) * (count - 1), max(whole - each * (count - 1), 0)]
    exact = divide_exactly(whole, count)
    if exact is not None or context.version < 18:
        return [context.compute(floor_divide, whole, count) if exact is None else exact] * count
    each_size = context.compute(floor_divide, whole + (count - 1), count)
    return [*(each_size,) * (count - 1), context.compute(lambda: whole - each_size * (count - 1))]


def _part(context: ShapeContext, slot: int, count: int) -> list[Size | None] | None:
    """The elements of one part of a followed vector."""
    given = context.elements(0)
    if given is None or len(given.shape) != 1:
        return None
    sizes = split_sizes(context, given.shape[0], count)
    numbers = [size for size in sizes if isinstance(size, int)]
    if len(numbers) < len(sizes):
        return None
    start = sum(numbers[:slot])
    return list(given.values[start : start + numbers[slot]])


# --- taking parts ----------------------------------------------------------------------------------------------------

_FAR = 1 << 31


@infers("Slice")
def slice_(context: ShapeContext) -> None:
    """Starts, ends, axes and steps are attributes, from opset 10 on inputs."""
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
        starts, ends = (_values(context, slot) for slot in (1, 2))
        axes, steps = context.numbers(3), _values(context, 4)
        has_axes, has_steps = context.has(3), context.has(4)
    if has_axes and axes is None:
        context.make(0, context.new_sizes(len(shape)))
        return
    count = next((len(each) for each in (starts, ends, axes) if each is not None), None)
    count = _vector_length(context, 1) if count is None and context.version >= 10 else count
    if count is None:
        context.make(0, context.new_sizes(len(shape)))
        return
    positions = [context.axis(axis, len(shape)) for axis in (axes if axes is not None else range(count))]
    if any(each is not None and len(each) != len(positions) for each in (starts, ends, steps)):
        raise ShapeError(f"{context.node}: as many starts, ends, axes and steps are needed")
    made = list(shape)
    for index, axis in enumerate(positions):
        start, end = (None if each is None else each[index] for each in (starts, ends))
        step = (None if steps is None else steps[index]) if has_steps else 1
        made[axis] = sliced_size(context, shape[axis], start, end, step)
    context.make(0, made, None, _sliced_elements(context, starts, ends, steps if has_steps else None, positions))


def _values(context: ShapeContext, slot: int) -> Sequence[Size | None] | None:
    found = context.elements(slot)
    return None if found is None else found.values


def sliced_size(context: ShapeContext, size: Size, start: Size | None, end: Size | None, step: Size | None) -> Size:
    """How many elements of an axis a slice takes; numpy's rule."""
    if step == 0:
        raise ShapeError(f"{context.node}: a step of 0")
    if not isinstance(step, int) or start is None or end is None:
        return context.new_size()
    if isinstance(size, int) and isinstance(start, int) and isinstance(end, int):
        return len(range(*slice(start, end if step > 0 or end >= -size else None, step).indices(size)))
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


def _bounded(context: ShapeContext, position: Size, size: Size) -> Size | None:
    """A position of a slice as a number from 0 to ``size``; None where its sign is not known."""
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
    given = context.elements(0)
    if given is None or len(given.shape) != 1 or list(positions) != [0] or starts is None or ends is None:
        return None
    start, end, step = starts[0], ends[0], 1 if steps is None else steps[0]
    if not (isinstance(start, int) and isinstance(end, int) and isinstance(step, int)):
        return None
    size = given.shape[0]
    return list(given.values[slice(start, end if step > 0 or end >= -size else None, step)])


@infers("Gather")
def gather(context: ShapeContext) -> None:
    shape, indices = context.shape(0), context.shape(1)
    if shape is None or indices is None:
        return
    axis = context.axis(context.attribute("axis", 0), len(shape))
    given, chosen = context.elements(0), context.numbers(1)
    elements: list[Size | None] | None = None
    if given is not None and len(given.shape) == 1 and chosen is not None:
        size = given.shape[0]
        if any(not -size <= index < size for index in chosen):
            raise ShapeError(f"{context.node}: takes elements {chosen} of {size}")
        elements = [given.values[index] for index in chosen]
    context.make(0, (*shape[:axis], *indices, *shape[axis + 1 :]), None, elements)


@infers("GatherBlockQuantized", domain="com.microsoft")
def gather_block_quantized(context: ShapeContext) -> None:
    """Like Gather; bytes may hold two numbers, and the result has the type of the scales."""
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
        raise ShapeError(f"{context.node}: indices of {depth} behind {batch} of {len(shape)} dimensions")
    context.make(0, (*indices[:-1], *shape[batch + depth :]))


@infers("Scatter", "ScatterElements", "ScatterND", "TensorScatter")
def scatter(context: ShapeContext) -> None:
    context.make(0, context.shape(0))


@infers("OneHot")
def one_hot(context: ShapeContext) -> None:
    shape, depth = context.shape(0), context.size(1)
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


# --- making ----------------------------------------------------------------------------------------------------------


@infers("Pad")
def pad(context: ShapeContext) -> None:
    """Pads are an attribute, from opset 11 on an input; axes from 18 on."""
    shape = context.shape(0)
    if shape is None:
        return
    if context.version < 11:
        pads: Sequence[Size | None] | None = context.integers("pads") or context.integers("paddings") or None
    else:
        pads = _values(context, 1)
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
            made[position] = context.compute(_sum, shape[position], before, after)
    context.make(0, made)


@infers("Constant")
def constant(context: ShapeContext) -> None:
    """A Constant node, of whatever attribute."""
    for name, attribute in context.node.attributes.items():
        value = attribute.value
        match name:
            case "value_int" | "value_float":
                is_whole = name == "value_int"
                context.make(0, (), ElementType.INT64 if is_whole else ElementType.FLOAT, [value] if is_whole else None)
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
            case _:
                pass


@infers("ConstantOfShape")
def constant_of_shape(context: ShapeContext) -> None:
    """Zeros, or what its one-element attribute says."""
    wanted, value = context.elements(0), context.attribute("value")
    element_type = ElementType.FLOAT if value is None else value.element_type
    if wanted is None:
        rank = _vector_length(context, 0)
        context.make(0, None if rank is None else context.new_sizes(rank), element_type)
        return
    sizes = [context.new_size() if size is None or not is_at_least(size, 0) else size for size in wanted]
    if any(isinstance(size, int) and size < 0 for size in wanted):
        raise ShapeError(f"{context.node}: a size below 0")
    counts = [size for size in sizes if isinstance(size, int)]
    elements: list[Size | None] | None = None
    if element_type in {ElementType.INT64, ElementType.INT32} and len(counts) == len(sizes):
        count = math.prod(counts)
        if count <= MOST_ELEMENTS:
            filling = int(value.numpy().reshape(-1)[0])
            elements = [filling] * count
    context.make(0, sizes, element_type, elements)


@infers("Range")
def range_(context: ShapeContext) -> None:
    """The element type is that of its inputs."""
    element_type = context.element_type(0)
    if element_type in {ElementType.INT64, ElementType.INT32, ElementType.INT16}:
        start, limit, step = (context.size(slot) for slot in range(3))
        if isinstance(start, int) and isinstance(limit, int) and isinstance(step, int) and step:
            values = range(start, limit, step)
            context.make(0, (len(values),), element_type, list(values) if len(values) <= MOST_ELEMENTS else None)
        elif start is not None and limit is not None and isinstance(step, int) and step > 0:
            count = context.compute(lambda: larger(0, floor_divide(limit - start + (step - 1), step)))
            context.make(0, (count,), element_type)
        else:
            context.make(0, (context.new_size(),), element_type)
        return
    given = [context.constant(slot) for slot in range(3)]
    numbers = [float(each.reshape(-1)[0]) for each in given if each is not None and each.size == 1]
    if len(numbers) == 3 and numbers[2] and all(map(math.isfinite, numbers)):
        count_ = max(math.ceil((numbers[1] - numbers[0]) / numbers[2]), 0)
        context.make(0, (count_,), element_type)
        return
    context.make(0, (context.new_size(),), element_type)


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
    """(N, C * elements of a block, L) → (N, C, *image)."""
    shape, image, block = context.shape(0), context.elements(1), context.numbers(2)
    rank = _vector_length(context, 1)
    if rank is None and image is None:
        return
    spatial = (
        context.new_sizes(rank or 0)
        if image is None
        else [context.new_size() if size is None else size for size in image]
    )
    if shape is None:
        context.make(0, (*context.new_sizes(2), *spatial))
        return
    channels: Size = context.new_size()
    if block is not None and 0 not in block:
        count = context.compute(lambda: product(list(block)))
        channels = context.compute(floor_divide, shape[1], count)
    context.make(0, (shape[0], channels, *spatial))
