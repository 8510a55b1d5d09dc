"""Elements of quantized tensors: what a code stands for, and the code of a number.

A code q with scale s and zero point z stands for (q - z) * s; the code of x is x / s, rounded half
to even, plus z, saturated. Both as ONNX's DequantizeLinear and QuantizeLinear have them.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from ortpkg.codegen.loop_ir.loop_types import Scalar
from ortpkg.codegen.lowering.elementwise_lowering import as_kind, widened
from ortpkg.codegen.lowering.lowering_scope import LoweringScope, NotLoweredError, number
from ortpkg.codegen.tensor_ir.elements import (
    Call,
    Convert,
    Element,
    Function,
    Number,
    Place,
    Read,
    along,
    scalar_of,
)
from ortpkg.shapes.expressions import Size

BYTES = frozenset({Scalar.U8, Scalar.I8})
#: Kinds whose numbers, and their differences, are exact in f32.
_SMALL_INTEGERS = BYTES | {Scalar.U16, Scalar.I16}
#: What numbers can be quantized to, and the least code.
_LEAST_CODES: Mapping[Scalar, int] = {
    Scalar.U8: 0, Scalar.I8: -128, Scalar.U16: 0, Scalar.I16: -32768,
}  # fmt: skip


def parameter(scope: LoweringScope, name: str, sizes: Mapping[int, Size]) -> Element | None:
    """A scale or a zero point: one for all, or one for each place along an axis.

    Known ones that are all alike are one number.

    Args:
        name: of the value; "" is None.
        sizes: axis → its size, for the axes along which it may vary; the first that fits is taken.

    NotLoweredError where its shape is another.
    """
    if not name:
        return None
    constant = scope.constant(name)
    if constant is not None and constant.size == 1:
        return number(constant.reshape(-1)[0].item(), scope.scalar(name))
    tensor = scope.tensor(name)
    if prod(tensor.shape, start=1) == 1:
        return Read(tensor, (Place(),) * len(tensor.shape))
    for axis, size in sizes.items():
        if tensor.shape == (size,):
            if constant is not None and constant.size and bool((constant == constant[0]).all()):
                return number(constant[0].item(), tensor.scalar)
            return Read(tensor, (along(axis),))
    raise NotLoweredError("its scales or zero points are neither one for all nor one for each place"
                          " along an axis")  # fmt: skip


def given(element: Element | None) -> Element:
    """A parameter that the operator must have. NotLoweredError where it is left out."""
    if element is None:
        raise NotLoweredError("a scale is left out")
    return element


def is_zero(zero: Element | None) -> bool:
    """Whether a zero point is known to be 0."""
    return zero is None or (isinstance(zero, Number) and zero.number == 0)


def real_number(code: Element, scale: Element, zero: Element | None) -> Element:
    """What a code stands for, as f32."""
    kind = scalar_of(code)
    if kind not in _SMALL_INTEGERS | {Scalar.I32}:
        raise NotLoweredError(f"codes of {kind.value} are not compiled")
    if zero is not None and scalar_of(zero) is not kind:
        raise NotLoweredError("its zero point is of another kind than its codes")
    # differences of i32 need more bits than it or f32 have
    exact = Scalar.F32 if kind in _SMALL_INTEGERS else Scalar.I64
    if zero is None or is_zero(zero):
        centred: Element = Convert(code, Scalar.F32)
    else:
        difference = Call(Function.SUB, (Convert(code, exact), as_exactly(zero, exact)))
        centred = as_kind(difference, Scalar.F32)
    return Call(Function.MUL, (centred, widened(scale)))


def as_exactly(element: Element, scalar: Scalar) -> Element:
    """The element as another kind that has all of its numbers; known ones are converted here."""
    if isinstance(element, Number):
        return number(element.number, scalar)
    return as_kind(element, scalar)


def code_of(scaled: Element, zero: Element | None, scalar: Scalar) -> Element:
    """The code of a number that was divided by the scale; that of NaN is the least one."""
    if scalar not in _LEAST_CODES:
        raise NotLoweredError(f"codes of {scalar.value} are not compiled")
    if zero is not None and scalar_of(zero) is not scalar:
        raise NotLoweredError("its zero point is of another kind than its codes")
    value: Element = Call(Function.ROUND, (scaled,))
    if zero is not None and not is_zero(zero):
        value = Call(Function.ADD, (value, as_exactly(zero, Scalar.F32)))
    least = _LEAST_CODES[scalar]
    if least:  # the conversion saturates, but makes 0 of NaN
        bound = number(least, Scalar.F32)
        value = Call(Function.SELECT, (Call(Function.GE, (value, bound)), value, bound))
    return Convert(value, scalar)
