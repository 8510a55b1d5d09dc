"""Expressions that compute one element of a tensor from the axes of an operation.

An operation runs over *axes*, numbered from 0, outermost first. Its expression reads elements of
tensors, at one coordinate for each dimension. A coordinate is a sum of axes times factors, or the
value of an element (a gather).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.graph.shapes.expressions import Size


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A tensor of a program: an operation's output, an input, or a constant.

    Compared by identity. Its elements are in C order without gaps.

    Attributes:
        name: name of the value in the model, or a made-up one; for people.
        scalar: type of its elements.
        shape: sizes, which may be formulas of the partition's symbols.
    """

    name: str
    scalar: Scalar
    shape: tuple[Size, ...]


class Function(StrEnum):
    """Functions of elements; those that the loop IR also has keep its names and rules."""

    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    REM = "rem"
    MIN = "min"
    MAX = "max"
    FMA = "fma"
    NEG = "neg"
    ABS = "abs"
    SQRT = "sqrt"
    FLOOR = "floor"
    CEIL = "ceil"
    ROUND = "round"
    TRUNC = "trunc"
    AND = "and"
    OR = "or"
    XOR = "xor"
    NOT = "not"
    EQ = "eq"
    NE = "ne"
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"
    SELECT = "select"
    EXP = "exp"
    LOG = "log"
    TANH = "tanh"
    ERF = "erf"
    SIGMOID = "sigmoid"
    SIN = "sin"
    COS = "cos"
    POW = "pow"


class FunctionRow(NamedTuple):
    """Properties of a function, whatever computes it.

    Attributes:
        operands: their number.
        is_for_floats: True if it is not defined for integers and bools.
        cycles: rough time of one vector on a current CPU, in cycles.
    """

    operands: int = 2
    is_for_floats: bool = False
    cycles: float = 1.0


_MATH_OF_ONE = {
    Function.SQRT: 8, Function.EXP: 14, Function.LOG: 18, Function.TANH: 24,
    Function.SIGMOID: 24, Function.ERF: 30, Function.SIN: 50, Function.COS: 50,
}  # fmt: skip
#: The row of each function; those left out here are of two operands, of any kind, and quick.
FUNCTION_ROWS: Mapping[Function, FunctionRow] = MappingProxyType({
    **{function: FunctionRow() for function in Function},
    **{function: FunctionRow(1) for function in (Function.NEG, Function.ABS, Function.NOT)},
    **{
        function: FunctionRow(1, is_for_floats=True)
        for function in (Function.FLOOR, Function.CEIL, Function.ROUND, Function.TRUNC)
    },
    **{
        function: FunctionRow(1, is_for_floats=True, cycles=cycles)
        for function, cycles in _MATH_OF_ONE.items()
    },
    Function.DIV: FunctionRow(cycles=8),
    Function.REM: FunctionRow(cycles=32),
    Function.POW: FunctionRow(is_for_floats=True, cycles=150),
    Function.FMA: FunctionRow(3, is_for_floats=True),
    Function.SELECT: FunctionRow(3),
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Coordinate:
    """A coordinate along one dimension: ``offset`` plus the sum of axes times factors.

    Attributes:
        terms: pairs of axis and factor.
        offset: number added to the sum.
        value: integer element added to the sum, for gathers; None for none.
    """

    terms: tuple[tuple[int, Size], ...] = ()
    offset: Size = 0
    value: Element | None = None


def along(axis: int) -> Coordinate:
    """Return the coordinate that equals the axis."""
    return Coordinate(((axis, 1),))


@dataclass(frozen=True, slots=True)
class Read:
    """The element of a tensor at one coordinate for each dimension."""

    tensor: Tensor
    coordinates: tuple[Coordinate, ...]


@dataclass(frozen=True, slots=True)
class Number:
    """A constant number of a scalar type."""

    number: int | float
    scalar: Scalar


@dataclass(frozen=True, slots=True)
class SizeValue:
    """A size, or a formula of sizes, as an i64."""

    size: Size


@dataclass(frozen=True, slots=True)
class Position:
    """The current number of an axis, as an i64."""

    axis: int


@dataclass(frozen=True, slots=True)
class Made:
    """The operation's own result for this element, such as the sum of a product.

    Only an *epilogue* has it.
    """

    scalar: Scalar


@dataclass(frozen=True, slots=True)
class Call:
    """A function of elements of one scalar type; the first operand of SELECT is BOOL."""

    function: Function
    operands: tuple[Element, ...]


@dataclass(frozen=True, slots=True)
class Convert:
    """An element converted to another scalar type, as ONNX's Cast does."""

    operand: Element
    scalar: Scalar


Element = Read | Number | SizeValue | Position | Made | Call | Convert

_COMPARISONS = frozenset({
    Function.EQ, Function.NE, Function.LT, Function.LE, Function.GT, Function.GE,
})  # fmt: skip


def scalar_of(element: Element) -> Scalar:
    """Return the scalar type of an element."""
    match element:
        case Read(tensor, _):
            return tensor.scalar
        case Number(_, scalar) | Made(scalar) | Convert(_, scalar):
            return scalar
        case SizeValue() | Position():
            return Scalar.I64
        case Call(function, operands):
            return Scalar.BOOL if function in _COMPARISONS else scalar_of(operands[-1])


def parts_of(element: Element) -> Iterator[Element]:
    """Yield an expression and all its subexpressions, also those inside coordinates."""
    yield element
    match element:
        case Read(_, coordinates):
            for coordinate in coordinates:
                if coordinate.value is not None:
                    yield from parts_of(coordinate.value)
        case Call(_, operands):
            for operand in operands:
                yield from parts_of(operand)
        case Convert(operand, _):
            yield from parts_of(operand)
        case _:
            pass


def tensors_read(element: Element) -> list[Tensor]:
    """Return the tensors that an expression reads, each once, in order of appearance."""
    return list(dict.fromkeys(part.tensor for part in parts_of(element) if isinstance(part, Read)))
