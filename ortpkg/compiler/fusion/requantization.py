"""Requantizes integer sums with a single product, as QLinearConv and QLinearMatMul do.

Between dequantized sides and a QuantizeLinear, the code of sum * (s * t) + bias, divided by the
scale u, becomes that of (sum + b) * (s * t / u), where b is the bias in units of s * t, rounded
half to even. ONNX leaves the order of the f32 sums open, and with it the last bit; onnxruntime
computes them in this way, so codes equal its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

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
)
from ortpkg.compiler.tensor_ir.operations import Convolution, Operation, Product
from ortpkg.compiler.tensor_ir.tensor_program import TensorProgram
from ortpkg.graph.shapes.expressions import Size

Array = npt.NDArray[Any]
_MOST_SUM, _MOST_FACTOR = 2**31 - 1, 255**2
#: Scales with which no quotient is denormal or infinite.
_LEAST_SCALE, _MOST_SCALE = 2.0**-120, 2.0**120


def requantize_at_once(program: TensorProgram) -> TensorProgram:
    """Return the program with one scale instead of two in epilogues of integer sums."""
    constants = dict(program.constants)
    operations = tuple(_rewritten(operation, constants) for operation in program.operations)
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
    """The number (integer sum + bias) * scale; if ``is_bounded``, at least 0."""

    scale: Array
    bias: Array | None
    coordinates: tuple[Coordinate, ...]
    is_bounded: bool


@dataclass
class _Rewriting:
    """Rewrites one epilogue; biases up to ``most_bias`` keep sums within 32 bits."""

    name: str
    most_bias: int
    constants: dict[Tensor, Array]

    def rewritten(self, element: Element) -> Element:
        """Return the expression with sums requantized by a single product."""
        match element:
            case Call(Function.ROUND, (Call(Function.DIV, (number, Number(over, Scalar.F32))),)):
                sums = self._sums(number)
                if sums is not None and _LEAST_SCALE <= over <= _MOST_SCALE:
                    return Call(Function.ROUND, (self._scaled(sums, over),))
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
        """Return the element as sums times a scale; None if it is something else."""
        match element:
            case Call(Function.MAX, (inner, Number(0, Scalar.F32))):
                sums = self._sums(inner)
                return None if sums is None else replace(sums, is_bounded=True)
            case Call(Function.ADD, (inner, bias)):
                sums = self._sums(inner)
                return None if sums is None else self._biased(sums, bias)
            case Call(Function.MUL, (Convert(Made(Scalar.I32), Scalar.F32), scale)):
                numbers = self._constant_numbers(scale)
                if numbers is None:
                    return None
                coordinates = scale.coordinates if isinstance(scale, Read) else ()
                return _Sums(numbers, None, coordinates, is_bounded=False)
            case _:
                return None

    def _constant_numbers(self, element: Element) -> Array | None:
        """Return a constant's f32 numbers, a single one or one along an axis; else None."""
        match element:
            case Number(value, Scalar.F32):
                return np.array([value], np.float32)
            case Read(tensor, (Coordinate(),)):
                values = self.constants.get(tensor)
                return None if values is None else np.asarray(values, np.float32).reshape(-1)
            case _:
                return None

    def _biased(self, sums: _Sums, bias: Element) -> _Sums | None:
        """Return the sums with a bias in their units; None if that is not possible."""
        units = sums.scale.astype(np.float32)
        if sums.bias is not None or sums.is_bounded:
            return None
        match bias:
            case Call(Function.MUL, (Convert(Read(tensor, coordinates), Scalar.F32), scale)):
                codes, bias_units = self.constants.get(tensor), self._constant_numbers(scale)
                if codes is None or bias_units is None or tensor.scalar is not Scalar.I32:
                    return None
                if bias_units.size not in {1, units.size} or not np.allclose(
                    bias_units, units, atol=0
                ):
                    return None
                steps = codes.reshape(-1).astype(np.float64)
            case Read(tensor, coordinates):
                numbers = self._constant_numbers(bias)
                if numbers is None or not bool(np.all(units)):
                    return None
                steps = np.rint((numbers / units).astype(np.float64))
            case _:
                return None
        if sums.coordinates and coordinates != sums.coordinates:
            return None
        if not float(np.abs(steps).max(initial=0)) <= self.most_bias:
            return None
        return replace(sums, bias=steps.astype(np.int32), coordinates=coordinates)

    def _scaled(self, sums: _Sums, over: float) -> Element:
        """Return the sums, bias included, divided by a scale."""
        whole: Element = Made(Scalar.I32)
        if sums.bias is not None:
            whole = Call(
                Function.ADD, (whole, self._constant("steps", sums.bias, sums.coordinates))
            )
        scale = (sums.scale / np.float32(over)).astype(np.float32)
        made = self._constant("requantized", scale, sums.coordinates)
        value: Element = Call(Function.MUL, (Convert(whole, Scalar.F32), made))
        if sums.is_bounded:
            value = Call(Function.MAX, (value, Number(0.0, Scalar.F32)))
        return value

    def _constant(self, hint: str, numbers: Array, coordinates: tuple[Coordinate, ...]) -> Element:
        scalar = Scalar.I32 if numbers.dtype == np.int32 else Scalar.F32
        if numbers.size == 1:
            return Number(numbers.reshape(-1)[0].item(), scalar)
        tensor = Tensor(f"{self.name} {hint}", scalar, numbers.shape)
        self.constants[tensor] = numbers
        return Read(tensor, coordinates)
