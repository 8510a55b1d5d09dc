"""Multiplies codes in the place of the numbers that they stand for.

A product, or a convolution, of two dequantized sides, with scales s and t and zero points p and q,
becomes the integer product, whose epilogue has s * t * sum((a - p) * (b - q)) where it had the sum
of s * (a - p) * t * (b - q). Integers are summed exactly. So the result differs from the one before
by float32 rounding alone: what was rounded at each product and sum is now rounded once as s * t,
once as the sum is brought to f32, and once as both are multiplied.

That holds where no sum of integers passes 32 bits, and s * t is neither rounded as a denormal
number nor so large that the f32 sums would have passed their range; where that is not known, the
product stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ortpkg.codegen.fusion.inlining import is_whole_map
from ortpkg.codegen.fusion.integer_convolutions import is_multiplied
from ortpkg.codegen.fusion.substitution import is_identity, moved, replace_made
from ortpkg.codegen.loop_ir.loop_types import Scalar
from ortpkg.codegen.tensor_ir.elements import (
    Call,
    Convert,
    Element,
    Function,
    Made,
    Number,
    Place,
    Read,
    Tensor,
    along,
)
from ortpkg.codegen.tensor_ir.operations import Convolution, Map, Operation, Product
from ortpkg.codegen.tensor_ir.tensor_program import TensorProgram

Array = npt.NDArray[Any]
_BYTES = frozenset({Scalar.U8, Scalar.I8})
#: So many products of two differences of bytes stay within 32 bits.
_MOST_PRODUCTS = (2**31 - 1) // 255**2
_LEAST_SCALE, _MOST_SCALE = 2.0**-126, 2.0**64


def multiply_codes(program: TensorProgram) -> TensorProgram:
    """The program with integer products and convolutions where both sides are dequantized bytes."""
    rewriting = _Rewriting(program)
    operations = tuple(map(rewriting.rewritten, program.operations))
    return replace(program, operations=operations, constants=rewriting.constants)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Codes:
    """What a tensor is dequantized from.

    Attributes:
        codes: the bytes, of the same shape.
        scale: float32, of one element or one for each place along an axis.
        zero: the zero point over the axes of the tensor, or None for 0.
        axis: along which scale and zero point vary; None: they are single numbers.
    """

    codes: Tensor
    scale: Array
    zero: Element | None
    axis: int | None


class _Rewriting:
    """One program's dequantized tensors, and the constants that are known, new ones too."""

    def __init__(self, program: TensorProgram) -> None:
        self.constants: dict[Tensor, Array] = dict(program.constants)
        self._dequantized: dict[Tensor, _Codes] = {}
        for operation in program.operations:
            if is_whole_map(operation):
                found = self._codes(operation)
                if found is not None:
                    self._dequantized[operation.output] = found

    def rewritten(self, operation: Operation) -> Operation:
        """The operation on codes, or as it is."""
        match operation:
            case Product():
                return self._product(operation) or operation
            case Convolution():
                return self._convolution(operation) or operation
            case _:
                return operation

    # --- dequantized tensors ----------------------------------------------------------------------

    def _codes(self, operation: Map) -> _Codes | None:
        """What a map dequantizes, where it does no more."""
        match operation.value:
            case Call(Function.MUL, (centred, scale)):
                parts = _centred(centred)
            case _:
                return None
        known, rank = self._scale(scale), len(operation.axes)
        if parts is None or known is None:
            return None
        read, zero = parts
        if not is_identity(read.places, operation.axes) or read.tensor.shape != operation.axes:
            return None
        places = {*_places(scale), *_places(zero)} - {Place()}
        axis = next((axis for axis in range(rank) if places == {along(axis)}), None)
        if places and axis is None:
            return None
        return _Codes(codes=read.tensor, scale=known, zero=zero, axis=axis)

    def _scale(self, scale: Element) -> Array | None:
        """A scale's numbers, where they are known."""
        match scale:
            case Number(value, Scalar.F32):
                return np.array(value, np.float32)
            case Read(tensor, _) if tensor in self.constants:
                return self.constants[tensor]
            case _:
                return None

    # --- products ---------------------------------------------------------------------------------

    def _product(self, product: Product) -> Product | None:
        if not isinstance(product.k, int) or product.k > _MOST_PRODUCTS:
            return None
        rank = len(product.batch)
        left = self._side(product.left, rank)
        right = self._side(product.right, rank + 1)
        if left is None or right is None:
            return None
        scale = self._scales(left[1], right[1])
        if scale is None:
            return None
        return replace(
            product,
            left=left[0],
            right=right[0],
            left_zero=left[1].zero,
            right_zero=right[1].zero,
            epilogue=_scaled(product.epilogue, scale),
        )

    def _side(self, element: Element, own: int) -> tuple[Read, _Codes] | None:
        """A side as codes, with scale and zero point along its own axis: m or n."""
        if not isinstance(element, Read) or element.tensor not in self._dequantized:
            return None
        found = self._dequantized[element.tensor]
        if found.axis is None:
            return Read(found.codes, element.places), found
        if element.places[found.axis] != along(own):
            return None
        zero = None if found.zero is None else moved(found.zero, element.places)
        return Read(found.codes, element.places), replace(found, zero=zero, axis=own)

    # --- convolutions -----------------------------------------------------------------------------

    def _convolution(self, convolution: Convolution) -> Convolution | None:
        source = self._dequantized.get(convolution.source)
        weights = self._dequantized.get(convolution.weights)
        if source is None or weights is None or source.axis is not None:
            return None
        product_count = prod(size for size in weights.codes.shape[1:] if isinstance(size, int))
        if product_count > _MOST_PRODUCTS or weights.axis not in {None, 0}:
            return None
        rank = len(convolution.output.shape)
        channels = (along(1), *(Place() for _ in range(rank - 1)))
        zero = None if weights.zero is None else moved(weights.zero, channels)
        along_channels = replace(weights, axis=None if weights.axis is None else 1)
        scale = self._scales(source, along_channels)
        if scale is None:
            return None
        made = replace(
            convolution,
            source=source.codes,
            weights=weights.codes,
            source_zero=source.zero,
            weights_zero=zero,
            epilogue=_scaled(convolution.epilogue, scale),
        )
        return made if is_multiplied(made) else None

    def _scales(self, left: _Codes, right: _Codes) -> Element | None:
        """The product of two scales over the axes of an output; None where it is out of range."""
        if left.axis is not None and right.axis is not None:
            return None
        sides = [each.scale.reshape(-1).astype(np.float64) for each in (left, right)]
        exact = sides[0] * sides[1]
        if not bool(np.all((exact >= _LEAST_SCALE) & (exact <= _MOST_SCALE))):
            return None
        made = exact.astype(np.float32)
        if made.size == 1:
            return Number(float(made[0]), Scalar.F32)
        axis = left.axis if left.axis is not None else right.axis
        assert axis is not None
        name = f"scales of {left.codes.name} and {right.codes.name}"
        tensor = Tensor(name, Scalar.F32, made.shape)
        self.constants[tensor] = made
        return Read(tensor, (along(axis),))


def _centred(element: Element) -> tuple[Read, Element | None] | None:
    """The codes and the zero point of a difference as f32."""
    match element:
        case Convert(Read() as read, Scalar.F32) if read.tensor.scalar in _BYTES:
            return read, None
        case Call(Function.SUB, (Convert(Read() as read, Scalar.F32), zero)):
            kind = read.tensor.scalar
            match zero:
                case Number(value, Scalar.F32) if kind in _BYTES:
                    return read, Number(int(value), kind)
                case Convert(Read() as point, Scalar.F32) if point.tensor.scalar is kind:
                    return (read, point) if kind in _BYTES else None
    return None


def _places(element: Element | None) -> Sequence[Place]:
    return element.places if isinstance(element, Read) else ()


def _scaled(epilogue: Element | None, scale: Element) -> Element:
    """The epilogue of integer sums, which has their numbers where it had the f32 sum."""
    number = Call(Function.MUL, (Convert(Made(Scalar.I32), Scalar.F32), scale))
    return number if epilogue is None else replace_made(epilogue, number)
