"""Elements of quantized tensors: the number of a code, and the code of a number.

A code q with scale s and zero point z stands for (q - z) * s. The code of x is x / s, rounded half
to even, plus z, saturated. Both follow ONNX's DequantizeLinear and QuantizeLinear.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.lowering.elementwise_lowering import as_kind, widened
from ortpkg.compiler.lowering.lowering_scope import LoweringScope, NotLoweredError, number
from ortpkg.compiler.tensor_ir.elements import (
    Call,
    Convert,
    Coordinate,
    Element,
    Function,
    Number,
    Read,
    along,
    scalar_of,
)
from ortpkg.graph.shapes.expressions import Size

BYTES = frozenset({Scalar.U8, Scalar.I8})
#: Types whose numbers, and differences of them, are exact in f32.
_SMALL_INTEGERS = BYTES | {Scalar.U16, Scalar.I16}
#: Types of codes that numbers can be quantized to → the least code.
_LEAST_CODES: Mapping[Scalar, int] = {
    Scalar.U8: 0, Scalar.I8: -128, Scalar.U16: 0, Scalar.I16: -32768,
}  # fmt: skip


def parameter(scope: LoweringScope, name: str, sizes: Mapping[int, Size]) -> Element | None:
    """Return a scale or a zero point: one number, or one for each position along an axis.

    Constants that are all equal become one number.

    Args:
        scope: the partition.
        name: name of the value; "" returns None.
        sizes: axis → its size, for the axes along which it may vary; the first that fits is used.

    Raises:
        NotLoweredError: if it has another shape.
    """
    if not name:
        return None
    constant = scope.constant(name)
    if constant is not None and constant.size == 1:
        return number(constant.reshape(-1)[0].item(), scope.scalar(name))
    tensor = scope.tensor(name)
    if prod(tensor.shape, start=1) == 1:
        return Read(tensor, (Coordinate(),) * len(tensor.shape))
    for axis, size in sizes.items():
        if tensor.shape == (size,):
            if constant is not None and constant.size and bool((constant == constant[0]).all()):
                return number(constant[0].item(), tensor.scalar)
            return Read(tensor, (along(axis),))
    raise NotLoweredError(
        "its scales or zero points are neither one for all nor one for each position along an axis"
    )


def required(element: Element | None) -> Element:
    """Return a parameter that the operator needs; NotLoweredError if it is missing."""
    if element is None:
        raise NotLoweredError("a scale is left out")
    return element


def is_zero(zero: Element | None) -> bool:
    """Return True if a zero point is known to be 0."""
    return zero is None or (isinstance(zero, Number) and zero.number == 0)


def real_number(code: Element, scale: Element, zero: Element | None) -> Element:
    """Return the number that a code stands for, as f32."""
    kind = scalar_of(code)
    if kind not in _SMALL_INTEGERS | {Scalar.I32}:
        raise NotLoweredError(f"codes of {kind.value} are not compiled")
    if zero is not None and scalar_of(zero) is not kind:
        raise NotLoweredError("its zero point is of another kind than its codes")
    # differences of i32 fit neither i32 nor f32
    exact = Scalar.F32 if kind in _SMALL_INTEGERS else Scalar.I64
    if zero is None or is_zero(zero):
        centred: Element = Convert(code, Scalar.F32)
    else:
        difference = Call(Function.SUB, (Convert(code, exact), convert_exactly(zero, exact)))
        centred = as_kind(difference, Scalar.F32)
    return Call(Function.MUL, (centred, widened(scale)))


def convert_exactly(element: Element, scalar: Scalar) -> Element:
    """Return the element converted to a type that contains it; constants are converted at once."""
    if isinstance(element, Number):
        return number(element.number, scalar)
    return as_kind(element, scalar)


def code_of(scaled: Element, zero: Element | None, scalar: Scalar) -> Element:
    """Return the code of a number already divided by the scale; for NaN, the least code."""
    if scalar not in _LEAST_CODES:
        raise NotLoweredError(f"codes of {scalar.value} are not compiled")
    if zero is not None and scalar_of(zero) is not scalar:
        raise NotLoweredError("its zero point is of another kind than its codes")
    value: Element = Call(Function.ROUND, (scaled,))
    if zero is not None and not is_zero(zero):
        value = Call(Function.ADD, (value, convert_exactly(zero, Scalar.F32)))
    least = _LEAST_CODES[scalar]
    if least:  # the conversion saturates, but turns NaN into 0
        bound = number(least, Scalar.F32)
        value = Call(Function.SELECT, (Call(Function.GE, (value, bound)), value, bound))
    return Convert(value, scalar)
