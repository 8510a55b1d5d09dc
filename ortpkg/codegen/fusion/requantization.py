"""Brings integer sums to their codes by one product, as QLinearConv and QLinearMatMul do.

Between dequantized sides and a QuantizeLinear, the code of sum * (s * t) + bias, divided by the
scale u, becomes that of (sum + b) * (s * t / u), where b is the bias in units of s * t, rounded
half to even. ONNX leaves the order of the f32 sums open, and with it the last bit; this is how
onnxruntime computes them, so that codes are the same as its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

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
)
from ortpkg.codegen.tensor_ir.operations import Convolution, Operation, Product
from ortpkg.codegen.tensor_ir.tensor_program import TensorProgram
from ortpkg.shapes.expressions import Size

Array = npt.NDArray[Any]
_MOST_SUM, _MOST_FACTOR = 2**31 - 1, 255**2
#: Scales with which no quotient is denormal or infinite.
_LEAST_SCALE, _MOST_SCALE = 2.0**-120, 2.0**120


def requantize_at_once(program: TensorProgram) -> TensorProgram:
    """The program with epilogues of integer sums that have one scale, where they had two."""
    constants = dict(program.constants)
    operations = tuple(_rewritten(each, constants) for each in program.operations)
    return replace(program, operations=operations, constants=constants)


def _rewritten(operation: Operation, constants: dict[Tensor, Array]) -> Operation:
    if not isinstance(operation, Product | Convolution) or operation.epilogue is None:
        return operation
    depth: Size = (
        operation.k if isinstance(operation, Product) else prod(operation.weights.shape[1:])
    )
    if not isinstance(depth, int):
        return operation
    rewriting = _Rewriting(operation.output.name, _MOST_SUM - depth * _MOST_FACTOR, constants)
    return replace(operation, epilogue=rewriting.rewritten(operation.epilogue))


@dataclass(frozen=True, slots=True)
class _Sums:
    """A number that is (integer sum + bias) * scale, or 0 where that is less and ``is_bounded``."""

    scale: Array
    bias: Array | None
    places: tuple[Place, ...]
    is_bounded: bool


@dataclass
class _Rewriting:
    """One epilogue. ``most_bias``: so large a bias keeps sums within 32 bits."""

    name: str
    most_bias: int
    constants: dict[Tensor, Array]

    def rewritten(self, element: Element) -> Element:
        """The element with codes of sums by one product."""
        match element:
            case Call(Function.ROUND, (Call(Function.DIV, (number, Number(over, Scalar.F32))),)):
                found = self._sums(number)
                if found is not None and _LEAST_SCALE <= over <= _MOST_SCALE:
                    return Call(Function.ROUND, (self._scaled(found, over),))
            case _:
                pass
        match element:
            case Call(function, operands):
                return Call(function, tuple(map(self.rewritten, operands)))
            case Convert(operand, scalar):
                return Convert(self.rewritten(operand), scalar)
            case _:
                return element

    def _sums(self, element: Element) -> _Sums | None:
        """The element as sums times a scale, where it is that."""
        match element:
            case Call(Function.MAX, (inner, Number(0, Scalar.F32))):
                found = self._sums(inner)
                return None if found is None else replace(found, is_bounded=True)
            case Call(Function.ADD, (inner, bias)):
                found = self._sums(inner)
                return None if found is None else self._biased(found, bias)
            case Call(Function.MUL, (Convert(Made(Scalar.I32), Scalar.F32), scale)):
                known = self._known(scale)
                if known is None:
                    return None
                places = scale.places if isinstance(scale, Read) else ()
                return _Sums(known, None, places, is_bounded=False)
            case _:
                return None

    def _known(self, element: Element) -> Array | None:
        """The f32 numbers of a constant that is one, or one for each place along an axis."""
        match element:
            case Number(value, Scalar.F32):
                return np.array([value], np.float32)
            case Read(tensor, (Place(),)):
                found = self.constants.get(tensor)
                return None if found is None else np.asarray(found, np.float32).reshape(-1)
            case _:
                return None

    def _biased(self, sums: _Sums, bias: Element) -> _Sums | None:
        """The sums with a bias in their units."""
        units = sums.scale.astype(np.float32)
        if sums.bias is not None or sums.is_bounded:
            return None
        match bias:
            case Call(Function.MUL, (Convert(Read(tensor, places), Scalar.F32), scale)):
                codes, own = self.constants.get(tensor), self._known(scale)
                if codes is None or own is None or tensor.scalar is not Scalar.I32:
                    return None
                if own.size not in {1, units.size} or not np.allclose(own, units, atol=0):
                    return None
                steps = codes.reshape(-1).astype(np.float64)
            case Read(tensor, places):
                known = self._known(bias)
                if known is None or not bool(np.all(units)):
                    return None
                steps = np.rint((known / units).astype(np.float64))
            case _:
                return None
        if sums.places and places != sums.places:
            return None
        if not float(np.abs(steps).max(initial=0)) <= self.most_bias:
            return None
        return replace(sums, bias=steps.astype(np.int32), places=places)

    def _scaled(self, sums: _Sums, over: float) -> Element:
        """The sums divided by a scale, bias included."""
        whole: Element = Made(Scalar.I32)
        if sums.bias is not None:
            whole = Call(Function.ADD, (whole, self._constant("steps", sums.bias, sums.places)))
        scale = (sums.scale / np.float32(over)).astype(np.float32)
        made = self._constant("requantized", scale, sums.places)
        value: Element = Call(Function.MUL, (Convert(whole, Scalar.F32), made))
        if sums.is_bounded:
            value = Call(Function.MAX, (value, Number(0.0, Scalar.F32)))
        return value

    def _constant(self, hint: str, numbers: Array, places: tuple[Place, ...]) -> Element:
        scalar = Scalar.I32 if numbers.dtype == np.int32 else Scalar.F32
        if numbers.size == 1:
            return Number(numbers.reshape(-1)[0].item(), scalar)
        tensor = Tensor(f"{self.name} {hint}", scalar, numbers.shape)
        self.constants[tensor] = numbers
        return Read(tensor, places)
