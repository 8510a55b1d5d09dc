"""What elements of the tensor IR are, by numpy: all places of the axes at once, by fancy indices."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.tensor_ir.elements import (
    Call,
    Convert,
    Element,
    Function,
    Made,
    Number,
    Position,
    Read,
    SizeValue,
    Tensor,
)
from ortpkg.graph.shapes.expressions import Size, evaluate

Array = npt.NDArray[Any]

DTYPES: Mapping[Scalar, np.dtype[Any]] = {
    Scalar.F64: np.dtype(np.float64),
    Scalar.F32: np.dtype(np.float32),
    Scalar.F16: np.dtype(np.float16),
    Scalar.BF16: np.dtype(ml_dtypes.bfloat16),
    Scalar.I64: np.dtype(np.int64),
    Scalar.I32: np.dtype(np.int32),
    Scalar.I16: np.dtype(np.int16),
    Scalar.I8: np.dtype(np.int8),
    Scalar.U64: np.dtype(np.uint64),
    Scalar.U32: np.dtype(np.uint32),
    Scalar.U16: np.dtype(np.uint16),
    Scalar.U8: np.dtype(np.uint8),
    Scalar.BOOL: np.dtype(np.bool_),
}
_SMALL = {Scalar.F16, Scalar.BF16}


def _sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, 1.0) / (1.0 + small)


def _quotient(left: Array, right: Array) -> Array:
    if left.dtype.kind == "f":
        return np.divide(left, right)
    quotient = np.abs(left) // np.maximum(np.abs(right), 1)
    if left.dtype.kind == "i":  # the size of the least number is itself, negative
        safe = np.where((right == 0) | (right == -1), 1, right)
        quotient = (left - np.fmod(left, safe)) // safe
        quotient = np.where(right == -1, np.negative(left), quotient)
    return np.where(right == 0, np.zeros_like(left), quotient).astype(left.dtype)


def _remainder(left: Array, right: Array) -> Array:
    safe = np.where((right == 0) | (right == -1), 1, right) if left.dtype.kind == "i" else right
    safe = np.where(right == 0, np.ones_like(right), safe)
    made: Array = np.fmod(left, safe).astype(left.dtype)
    return made


def _fused(left: Array, right: Array, addend: Array) -> Array:
    return left.astype(np.float64) * right + addend


#: Functions of floats, computed in f64 and rounded.
_IN_F64: Mapping[Function, Callable[..., Array]] = {
    Function.EXP: np.exp,
    Function.LOG: np.log,
    Function.TANH: np.tanh,
    Function.ERF: np.vectorize(math.erf, otypes=[np.float64]),
    Function.SIGMOID: _sigmoid,
    Function.SIN: np.sin,
    Function.COS: np.cos,
    Function.POW: lambda left, right: np.power(*np.broadcast_arrays(left, right)),
}
_EXACT: Mapping[Function, Callable[..., Array]] = {
    Function.ADD: np.add,
    Function.SUB: np.subtract,
    Function.MUL: np.multiply,
    Function.DIV: _quotient,
    Function.REM: _remainder,
    Function.MIN: np.minimum,
    Function.MAX: np.maximum,
    Function.FMA: _fused,
    Function.NEG: np.negative,
    Function.ABS: np.abs,
    Function.SQRT: np.sqrt,
    Function.FLOOR: np.floor,
    Function.CEIL: np.ceil,
    Function.ROUND: np.rint,
    Function.TRUNC: np.trunc,
    Function.AND: np.bitwise_and,
    Function.OR: np.bitwise_or,
    Function.XOR: np.bitwise_xor,
    Function.NOT: np.bitwise_not,
    Function.EQ: np.equal,
    Function.NE: np.not_equal,
    Function.LT: np.less,
    Function.LE: np.less_equal,
    Function.GT: np.greater,
    Function.GE: np.greater_equal,
    Function.SELECT: np.where,
}


def reference_value(
    element: Element,
    axes: Sequence[int],
    arrays: Mapping[Tensor, Array],
    *,
    made: Array | None = None,
    symbols: Mapping[str, int] | None = None,
) -> Array:
    """The element at all places: an array of the shape ``axes``."""
    reference = _Reference(tuple(axes), arrays, made, symbols or {})
    with np.errstate(all="ignore"):
        found = reference.value(element)
    return np.array(np.broadcast_to(found, tuple(axes)), order="C")


@dataclass
class _Reference:
    axes: tuple[int, ...]
    arrays: Mapping[Tensor, Array]
    made: Array | None
    symbols: Mapping[str, int] = field(default_factory=dict)

    def value(self, element: Element) -> Array:
        match element:
            case Read(tensor, _):
                return np.asarray(self.arrays[tensor][self.coordinates(element)])
            case Number(number, scalar):
                return np.asarray(number).astype(DTYPES[scalar])
            case SizeValue(size):
                return np.asarray(self.size(size), np.int64)
            case Position(axis):
                return self.position(axis)
            case Made():
                assert self.made is not None
                return self.made
            case Convert(operand, scalar):
                return converted(self.value(operand), scalar)
            case Call(function, operands):
                return self.called(function, [self.value(each) for each in operands])

    def size(self, size: Size) -> int:
        return evaluate(size, self.symbols)

    def position(self, axis: int) -> Array:
        shape = [-1 if place == axis else 1 for place in range(len(self.axes))]
        return np.arange(self.axes[axis], dtype=np.int64).reshape(shape)

    def coordinates(self, read: Read) -> tuple[Array, ...]:
        return tuple(
            sum(
                (self.position(axis) * self.size(number) for axis, number in place.terms),
                np.asarray(self.size(place.offset))
                + (0 if place.value is None else self.value(place.value).astype(np.int64)),
            )
            for place in read.coordinates
        )

    def called(self, function: Function, operands: Sequence[Array]) -> Array:
        kind = operands[-1].dtype
        wide = operands
        if kind in {DTYPES[each] for each in _SMALL} and function is not Function.SELECT:
            wide = [each.astype(np.float32) for each in operands]
        if function in _IN_F64:
            found = _IN_F64[function](*(each.astype(np.float64) for each in wide))
        else:
            found = np.asarray(_EXACT[function](*wide))
        if found.dtype == np.bool_ or found.dtype == kind:
            return found
        return np.asarray(found.astype(wide[-1].dtype).astype(kind))


def converted(array: Array, scalar: Scalar) -> Array:
    """The array as another kind, as a Cast of the tensor IR converts."""
    target = DTYPES[scalar]
    if array.dtype.kind != "f" and array.dtype != DTYPES[Scalar.BF16]:
        return array.astype(target)
    if scalar in _SMALL | {Scalar.BOOL} or scalar.is_float:
        wide = array.astype(np.float32) if scalar in _SMALL else array
        return wide.astype(target)
    wide = array.astype(np.float64)
    least, most = np.iinfo(target).min, np.iinfo(target).max
    inside = np.where(np.isnan(wide) | (wide >= most) | (wide <= least), 0, wide)
    made = np.trunc(inside).astype(target)
    return np.where(wide >= most, most, np.where(wide <= least, least, made)).astype(target)


def assert_same(made: Array, wanted: Array, message: str = "") -> None:
    """Equal numbers at every place, and NaN where NaN is to be."""
    if made.dtype == DTYPES[Scalar.BF16]:  # numpy does not know that it has NaN
        made, wanted = made.astype(np.float32), wanted.astype(np.float32)
    np.testing.assert_array_equal(made, wanted, err_msg=message)
