"""What one element of a tensor is: expressions over the axes of an operation.

An operation runs over *axes*, numbered from 0, outermost first. Its expression reads elements of
tensors at places that are computed of the axes: each place, one for each dimension, is a sum of
axes times numbers, or the value of an element (a gather).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from ortpkg.codegen.loop_ir.loop_types import Scalar
from ortpkg.shapes.expressions import Size


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A tensor of a program: what an operation makes, an input, or a constant.

    Compared by identity. It lies in C order without gaps.

    Attributes:
        name: of the value in the model, or made up; for people.
        scalar: kind of its elements.
        shape: sizes, which may be formulas of the partition's symbols.
    """

    name: str
    scalar: Scalar
    shape: tuple[Size, ...]


class Function(StrEnum):
    """Functions of elements. Those of the loop IR's operations have their names and rules."""

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


@dataclass(frozen=True, slots=True)
class Place:
    """A place along one dimension: ``offset`` plus each axis times its number.

    ``value``: an element that is added to it, for gathers; of an integer kind.
    """

    terms: tuple[tuple[int, Size], ...] = ()
    offset: Size = 0
    value: Element | None = None


def along(axis: int) -> Place:
    """The place that the axis counts."""
    return Place(((axis, 1),))


@dataclass(frozen=True, slots=True)
class Read:
    """The element of a tensor at a place for each of its dimensions."""

    tensor: Tensor
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Number:
    """A number that is known."""

    number: int | float
    scalar: Scalar


@dataclass(frozen=True, slots=True)
class SizeValue:
    """A size, or what is computed of sizes, as an i64."""

    size: Size


@dataclass(frozen=True, slots=True)
class Position:
    """The place that an axis stands at, as an i64."""

    axis: int


@dataclass(frozen=True, slots=True)
class Made:
    """What the operation itself made for this element: the sum of a product, a reduced value.

    The expression of an *epilogue* has it.
    """

    scalar: Scalar


@dataclass(frozen=True, slots=True)
class Call:
    """A function of elements. Operands are of one kind; of SELECT the first is BOOL."""

    function: Function
    operands: tuple[Element, ...]


@dataclass(frozen=True, slots=True)
class Convert:
    """An element as another kind of number, as ONNX's Cast converts."""

    operand: Element
    scalar: Scalar


Element = Read | Number | SizeValue | Position | Made | Call | Convert

_COMPARISONS = frozenset({
    Function.EQ, Function.NE, Function.LT, Function.LE, Function.GT, Function.GE,
})  # fmt: skip


def scalar_of(element: Element) -> Scalar:
    """The kind of number that an element is."""
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
    """The element and all that it is made of, those inside of places too."""
    yield element
    match element:
        case Read(_, places):
            for place in places:
                if place.value is not None:
                    yield from parts_of(place.value)
        case Call(_, operands):
            for operand in operands:
                yield from parts_of(operand)
        case Convert(operand, _):
            yield from parts_of(operand)
        case _:
            pass


def tensors_read(element: Element) -> list[Tensor]:
    """The tensors that an element is computed of, each once, in the order in which they stand."""
    return list(dict.fromkeys(each.tensor for each in parts_of(element) if isinstance(each, Read)))
