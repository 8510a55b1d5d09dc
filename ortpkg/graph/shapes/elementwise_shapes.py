"""Shapes of elementwise operators, with broadcasting; arithmetic on sizes is followed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

from ortpkg.graph.load_control import polled_parts
from ortpkg.graph.shapes.expression_bounds import is_at_least
from ortpkg.graph.shapes.expressions import Size, TooLargeError
from ortpkg.graph.shapes.knowledge import MOST_ELEMENTS, WHOLE_NUMBERS, Elements, KnownTensor, Sizes
from ortpkg.graph.shapes.shape_context import ShapeContext, ShapeError, infers
from ortpkg.graph.shapes.size_operations import (
    broadcast,
    divide_exactly,
    floor_divide,
    larger,
    remainder,
    smaller,
)
from ortpkg.graph.types import ElementType

MICROSOFT = "com.microsoft"


def broadcast_sizes(context: ShapeContext, shapes: Sequence[Sizes | None]) -> Sizes | None:
    """Return the shape that these shapes broadcast to, by numpy's rule; None if one is unknown.

    Raises:
        ShapeError: if they do not broadcast.
    """
    if not shapes or any(shape is None for shape in shapes):
        return None
    known_shapes = [shape for shape in shapes if shape is not None]
    rank = max(map(len, known_shapes))
    padded = [(*(1,) * (rank - len(shape)), *shape) for shape in known_shapes]
    broadcast_sizes: list[Size] = []
    for sizes in zip(*padded, strict=True):
        size: Size = 1
        for other in polled_parts(sizes):
            try:
                size = context.compute(broadcast, size, other)
            except ValueError as error:
                raise ShapeError(f"{context.node}: {error}") from error
        broadcast_sizes.append(size)
    return tuple(broadcast_sizes)


def make_broadcast(
    context: ShapeContext, slots: Sequence[int], element_type: ElementType | None = None
) -> None:
    """Set output 0 to the shape that these inputs broadcast to."""
    context.make(0, broadcast_sizes(context, [context.shape(slot) for slot in slots]), element_type)


def make_same(
    context: ShapeContext,
    *,
    slot: int = 0,
    output: int = 0,
    element_type: ElementType | None = None,
) -> None:
    """Set an output to the shape of an input, and to its element type unless one is given."""
    if element_type is None:
        input_type = context.element_type(slot)
        element_type = input_type if input_type is not ElementType.UNDEFINED else None
    context.make(output, context.shape(slot), element_type)


@infers(
    "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Ceil", "Celu", "Clip", "Cos",
    "Cosh", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "Hardmax",
    "LeakyRelu", "Log", "LogSoftmax", "LpNormalization", "LRN", "MeanVarianceNormalization", "Mish",
    "Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh",
    "Softmax", "Softplus", "Softsign", "Sqrt", "Swish", "Tan", "Tanh", "ThresholdedRelu",
    "InstanceNormalization", "GroupNormalization", "Trilu", "ReverseSequence", "CumProd",
    "StringNormalizer", "IsInf", "IsNaN", "RegexFullMatch",
)  # fmt: skip
def same_shape(context: ShapeContext) -> None:
    """Infer the shape of input 0 for output 0."""
    if context.node.op_type == "StringNormalizer":
        shape = context.shape(0)  # stop words may be removed, so the last size is unknown
        context.make(0, None if shape is None else (*shape[:-1], context.new_size()))
        return
    context.make(0, context.shape(0))


@infers("Gelu", "FastGelu", "QuickGelu", "BiasGelu", domain=MICROSOFT)
def microsoft_activation(context: ShapeContext) -> None:
    make_same(context)


@infers("QLinearLeakyRelu", "QLinearSigmoid", domain=MICROSOFT)
def quantized_activation(context: ShapeContext) -> None:
    make_same(context)


@infers("QLinearSoftmax", domain=MICROSOFT)
def quantized_softmax(context: ShapeContext) -> None:
    make_same(context)


@infers("PRelu")
def prelu(context: ShapeContext) -> None:
    """Infer the shape of the input; the slope is broadcast to it, never the other way."""
    context.make(0, context.shape(0))


# --- two inputs -----------------------------------------------------------------------------------


def _truncated_quotient(left: Size, right: Size) -> Size | None:
    """Return the quotient of whole numbers, rounded towards zero (Div)."""
    if isinstance(left, int) and isinstance(right, int):
        if right == 0:
            return None
        quotient = abs(left) // abs(right)
        return -quotient if (left < 0) != (right < 0) else quotient
    if not isinstance(right, int) or right <= 0:
        return None
    return floor_divide(left, right) if is_at_least(left, 0) else divide_exactly(left, right)


def _modulo(left: Size, right: Size) -> Size | None:
    return None if right == 0 else remainder(left, right)


_ARITHMETIC: dict[str, Callable[[Size, Size], Size | None]] = {
    "Add": lambda left, right: left + right,
    "Sub": lambda left, right: left - right,
    "Mul": lambda left, right: left * right,
    "Div": _truncated_quotient,
    "Max": larger,
    "Min": smaller,
    "Mod": _modulo,
}
_COMPARISONS: dict[str, Callable[[int, int], int]] = {
    "Equal": lambda left, right: int(left == right),
    "Greater": lambda left, right: int(left > right),
    "GreaterOrEqual": lambda left, right: int(left >= right),
    "Less": lambda left, right: int(left < right),
    "LessOrEqual": lambda left, right: int(left <= right),
    "And": lambda left, right: int(bool(left and right)),
    "Or": lambda left, right: int(bool(left or right)),
    "Xor": lambda left, right: int(bool(left) != bool(right)),
}
_ORDERINGS = frozenset({"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"})
#: Types in which sizes may be computed without overflow; elements of other types are not followed.
_FOLLOWED = frozenset({ElementType.INT64, ElementType.INT32})
#: Floats that sizes of tensors are cast to without loss.
_EXACT_FLOATS = frozenset({ElementType.FLOAT, ElementType.DOUBLE})
#: Most inputs of a node whose elements are followed, since each may have the most elements.
_MOST_FOLLOWED_INPUTS = 16


@infers(
    "Add", "And", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Equal", "Greater",
    "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Mean", "Min", "Mod", "Mul", "Or", "Pow", "Sub",
    "Sum", "Xor",
)  # fmt: skip
def binary(context: ShapeContext) -> None:
    """Infer the broadcast of the inputs; before opset 7, only the second one is broadcast."""
    op_type, count = context.node.op_type, len(context.node.inputs)
    if context.version < 7 and op_type not in {"Max", "Min", "Mean", "Sum"}:
        context.make(0, context.shape(0))
        return
    shape = broadcast_sizes(context, [context.shape(slot) for slot in range(count)])
    element_type = context.element_type(0) if op_type == "Pow" else None
    context.make(0, shape, element_type, _combined(context, shape))


@infers("QLinearAdd", "QLinearMul", domain=MICROSOFT)
def quantized_binary(context: ShapeContext) -> None:
    """Infer from (A, its scale and zero point, B, ...)."""
    make_broadcast(context, (0, 3), context.element_type(0))


@infers("StringConcat", "SwiGLU")
def broadcast_all(context: ShapeContext) -> None:
    make_broadcast(context, range(len(context.node.inputs)))


def _combined(context: ShapeContext, shape: Sizes | None) -> list[Size | None] | None:
    """Return the elements of the result, if those of all inputs are followed."""
    op_type = context.node.op_type
    is_followed = context.element_type(0) in _FOLLOWED or (op_type in {"And", "Or", "Xor"})
    operands = [context.elements(slot) for slot in range(len(context.node.inputs))]
    if shape is None or not is_followed or (op_type == "Mod" and context.attribute("fmod", 0)):
        return None
    counts = tuple(size for size in shape if isinstance(size, int))
    if (
        len(counts) < len(shape)
        or len(operands) > _MOST_FOLLOWED_INPUTS
        or math.prod(counts) > MOST_ELEMENTS
        or any(operand is None for operand in operands)
    ):
        return None
    columns = [broadcast_elements(operand, counts) for operand in operands if operand is not None]
    return [_reduced(op_type, values) for values in zip(*columns, strict=True)]


def _reduced(op_type: str, values: tuple[Size | None, ...]) -> Size | None:
    operands = [value for value in values if value is not None]
    if len(operands) < len(values):
        return None
    arithmetic, comparison = _ARITHMETIC.get(op_type), _COMPARISONS.get(op_type)
    result: Size | None = operands[0]
    for value in operands[1:]:
        if result is None:
            return None
        if arithmetic is not None:
            try:
                result = arithmetic(result, value)
            except TooLargeError:
                return None
        elif comparison is not None:
            result = _compared(comparison, op_type, result, value)
        else:
            return None
    return result if arithmetic is not None or comparison is not None else None


def _compared(
    comparison: Callable[[int, int], int], op_type: str, left: Size, right: Size
) -> int | None:
    """Return the result if it is the same for all values of the symbols, else None."""
    if isinstance(left, int) and isinstance(right, int):
        return comparison(left, right)
    if op_type in _ORDERINGS and (order := _order_of(left, right)) is not None:
        return comparison(order, 0)
    if op_type in {"GreaterOrEqual", "Less"} and is_at_least(left, right):
        return int(op_type == "GreaterOrEqual")
    if op_type in {"LessOrEqual", "Greater"} and is_at_least(right, left):
        return int(op_type == "LessOrEqual")
    return None


def _order_of(left: Size, right: Size) -> int | None:
    """Return 1, 0 or -1 if ``left`` is always larger than, equal to, or smaller than ``right``."""
    if left == right:
        return 0
    if is_at_least(left, right + 1):
        return 1
    return -1 if is_at_least(right, left + 1) else None


def broadcast_elements(elements: Elements, shape: tuple[int, ...]) -> list[Size | None]:
    """Return the elements broadcast to ``shape``, in C order."""
    if 0 in shape:  # there are no elements, whatever the other sizes
        return []
    padded_shape = (*(1,) * (len(shape) - len(elements.shape)), *elements.shape)
    strides = [
        math.prod(padded_shape[axis + 1 :]) if padded_shape[axis] != 1 else 0
        for axis in range(len(padded_shape))
    ]
    return [
        elements.values[sum(index * stride for index, stride in zip(indices, strides, strict=True))]
        for indices in itertools.product(*map(range, shape))
    ]


# --- one input, elements followed -----------------------------------------------------------------


def _mapped(
    context: ShapeContext, function: Callable[[Size], Size | None]
) -> list[Size | None] | None:
    elements = context.elements(0)
    return (
        None
        if elements is None
        else [None if value is None else function(value) for value in elements]
    )


@infers("Neg")
def negative(context: ShapeContext) -> None:
    followed = context.element_type(0) in _FOLLOWED
    context.make(
        0, context.shape(0), None, _mapped(context, lambda value: value * -1) if followed else None
    )


@infers("Abs")
def absolute(context: ShapeContext) -> None:
    followed = context.element_type(0) in _FOLLOWED
    context.make(0, context.shape(0), None, _mapped(context, _magnitude) if followed else None)


def _magnitude(value: Size) -> Size | None:
    """Return the number without its sign; None if the sign is unknown."""
    if is_at_least(value, 0):
        return value
    return value * -1 if is_at_least(0, value) else None


@infers("Not")
def negation(context: ShapeContext) -> None:
    elements = _mapped(context, lambda value: int(not value) if isinstance(value, int) else None)
    context.make(0, context.shape(0), None, elements)


@infers("Identity")
def identity(context: ShapeContext) -> None:
    context.make_known(0, context.known(0))


@infers("Cast")
def cast(context: ShapeContext) -> None:
    """Infer a cast; whole numbers keep their known elements.

    Elements out of the type's range are not followed; for floats, a single element is.
    """
    target = context.chosen_type("to", ElementType.UNDEFINED)
    source = context.tensor(0)
    elements = _cast_elements(source, target)
    count = context.size(0) if target in _EXACT_FLOATS and source is not None else None
    shape = context.shape(0)
    context.make(0, shape, target, None if elements is None else elements.values)
    if count is not None:
        context.make_known(0, KnownTensor(target, shape, count=count))


def _cast_elements(tensor: KnownTensor | None, target: ElementType) -> Elements | None:
    if tensor is None or tensor.elements is None or tensor.element_type not in WHOLE_NUMBERS:
        return None
    if target in _FOLLOWED:
        return tensor.elements
    if target is ElementType.BOOL:
        numbers = tuple(None if value is None else _truth(value) for value in tensor.elements)
    else:
        numbers = tuple(value if isinstance(value, int) else None for value in tensor.elements)
    return Elements(tensor.elements.shape, numbers) if target in WHOLE_NUMBERS else None


def _truth(value: Size) -> int | None:
    """Return whether the number is not 0, as 1 or 0; None if unknown."""
    order = _order_of(value, 0)
    return None if order is None else int(order != 0)


@infers("CastLike")
def cast_like(context: ShapeContext) -> None:
    target = context.element_type(1)
    elements = _cast_elements(context.tensor(0), target)
    context.make(0, context.shape(0), target, None if elements is None else elements.values)


@infers("BitCast")
def bit_cast(context: ShapeContext) -> None:
    context.make(0, context.shape(0), context.chosen_type("to", ElementType.UNDEFINED))


@infers("Where")
def where(context: ShapeContext) -> None:
    """Infer the broadcast shape, and chosen elements where the condition is known."""
    shape = broadcast_sizes(context, [context.shape(slot) for slot in range(3)])
    operands = [context.elements(slot) for slot in range(3)]
    chosen: list[Size | None] | None = None
    counts = tuple(size for size in shape or () if isinstance(size, int))
    if (
        shape is not None
        and len(counts) == len(shape)
        and math.prod(counts) <= MOST_ELEMENTS
        and None not in operands
    ):
        columns = [
            broadcast_elements(operand, counts) for operand in operands if operand is not None
        ]
        chosen = [
            (yes if condition else no) if isinstance(condition, int) else yes if yes == no else None
            for condition, yes, no in zip(*columns, strict=True)
        ]
    context.make(0, shape, None, chosen)


@infers("Dropout")
def dropout(context: ShapeContext) -> None:
    """Infer the output and the mask, which is boolean from opset 10 on."""
    context.make(0, context.shape(0))
    context.make(
        1, context.shape(0), ElementType.BOOL if context.version >= 10 else context.element_type(0)
    )


@infers("CumSum")
def cumulative_sum(context: ShapeContext) -> None:
    context.make(0, context.shape(0))


@infers("Affine", "ImageScaler", "ParametricSoftplus", "ScaledTanh")
def old_activation(context: ShapeContext) -> None:
    context.make(0, context.shape(0))
