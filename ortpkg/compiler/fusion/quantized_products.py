"""Multiplies integer codes instead of the floats that they stand for.

A product, or a convolution, of two dequantized sides, with scales s and t and zero points p and q,
becomes the integer product. Its epilogue multiplies s * t * sum((a - p) * (b - q)), instead of
summing s * (a - p) * t * (b - q). Integers are summed exactly, so the result differs only by
float32 rounding: each product and sum was rounded before, now s * t is rounded once, the sum once
as it becomes f32, and their product once.

This holds if no sum of integers exceeds 32 bits, and s * t is neither denormal nor so large that
the f32 sums would have overflowed; unless that is known, the product stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ortpkg.compiler.fusion.inlining import is_whole_map
from ortpkg.compiler.fusion.integer_convolutions import is_multiplied
from ortpkg.compiler.fusion.substitution import is_identity, moved, replace_made
from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.tensor_ir.elements import (
    Call,
    Convert,
    Coordinate,
    Element,
    Function,
    Made,
    Number,
    Read,
    Tensor,
    along,
)
from ortpkg.compiler.tensor_ir.operations import Convolution, Map, Operation, Product
from ortpkg.compiler.tensor_ir.tensor_program import TensorProgram

Array = npt.NDArray[Any]
_BYTES = frozenset({Scalar.U8, Scalar.I8})
#: Most products of two differences of bytes whose sum fits 32 bits.
_MOST_PRODUCTS = (2**31 - 1) // 255**2
_LEAST_SCALE, _MOST_SCALE = 2.0**-126, 2.0**64


def multiply_codes(program: TensorProgram) -> TensorProgram:
    """Return the program with integer products and convolutions of dequantized bytes."""
    rewriting = _Rewriting(program)
    operations = tuple(map(rewriting.rewritten, program.operations))
    return replace(program, operations=operations, constants=rewriting.constants)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Codes:
    """The quantized form of a dequantized tensor.

    Attributes:
        codes: the bytes, of the same shape.
        scale: float32, one number, or one for each position along an axis.
        zero: the zero point over the axes of the tensor, or None for 0.
        axis: axis along which scale and zero point vary; None if they are single numbers.
    """

    codes: Tensor
    scale: Array
    zero: Element | None
    axis: int | None


class _Rewriting:
    """The dequantized tensors of a program, and its constants including new ones."""

    def __init__(self, program: TensorProgram) -> None:
        self.constants: dict[Tensor, Array] = dict(program.constants)
        self._dequantized: dict[Tensor, _Codes] = {}
        for operation in program.operations:
            if is_whole_map(operation):
                codes = self._codes(operation)
                if codes is not None:
                    self._dequantized[operation.output] = codes

    def rewritten(self, operation: Operation) -> Operation:
        """Return the operation on codes, or the operation itself if it cannot be."""
        match operation:
            case Product():
                return self._product(operation) or operation
            case Convolution():
                return self._convolution(operation) or operation
            case _:
                return operation

    # --- dequantized tensors ----------------------------------------------------------------------

    def _codes(self, operation: Map) -> _Codes | None:
        """Return what a map dequantizes; None if it does anything else."""
        match operation.value:
            case Call(Function.MUL, (centred, scale)):
                parts = _centred(centred)
            case _:
                return None
        scales, rank = self._scale(scale), len(operation.axes)
        if parts is None or scales is None:
            return None
        read, zero = parts
        if not is_identity(read.coordinates, operation.axes) or read.tensor.shape != operation.axes:
            return None
        coordinates = {*_coordinates(scale), *_coordinates(zero)} - {Coordinate()}
        axis = next((axis for axis in range(rank) if coordinates == {along(axis)}), None)
        if coordinates and axis is None:
            return None
        return _Codes(codes=read.tensor, scale=scales, zero=zero, axis=axis)

    def _scale(self, scale: Element) -> Array | None:
        """Return a scale's numbers if they are constant, else None."""
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

    def _side(self, element: Element, axis: int) -> tuple[Read, _Codes] | None:
        """Return a side as codes, with scale and zero point along ``axis``; None if impossible."""
        if not isinstance(element, Read) or element.tensor not in self._dequantized:
            return None
        codes = self._dequantized[element.tensor]
        if codes.axis is None:
            return Read(codes.codes, element.coordinates), codes
        if element.coordinates[codes.axis] != along(axis):
            return None
        zero = None if codes.zero is None else moved(codes.zero, element.coordinates)
        return Read(codes.codes, element.coordinates), replace(codes, zero=zero, axis=axis)

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
        channels = (along(1), *(Coordinate() for _ in range(rank - 1)))
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
        """Return the product of two scales over an output's axes; None if it is out of range."""
        if left.axis is not None and right.axis is not None:
            return None
        sides = [side.scale.reshape(-1).astype(np.float64) for side in (left, right)]
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
    """Return codes and zero point of a difference of codes as f32; None for other elements."""
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


def _coordinates(element: Element | None) -> Sequence[Coordinate]:
    return element.coordinates if isinstance(element, Read) else ()


def _scaled(epilogue: Element | None, scale: Element) -> Element:
    """Return the epilogue for integer sums, which converts and scales them first."""
    number = Call(Function.MUL, (Convert(Made(Scalar.I32), Scalar.F32), scale))
    return number if epilogue is None else replace_made(epilogue, number)
