"""Substitutions in expressions of elements: other coordinates, other reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.tensor_ir.elements import (
    Call,
    Convert,
    Coordinate,
    Element,
    Function,
    Made,
    Number,
    Position,
    Read,
    SizeValue,
    along,
)
from ortpkg.graph.shapes.expressions import Size


def replace_reads(element: Element, change: Callable[[Read], Element]) -> Element:
    """Return the expression with each read changed by a function, innermost reads first."""
    match element:
        case Read(tensor, coordinates):
            return change(
                Read(
                    tensor,
                    tuple(_coordinate_with(coordinate, change) for coordinate in coordinates),
                )
            )
        case Call(function, operands):
            return Call(function, tuple(replace_reads(operand, change) for operand in operands))
        case Convert(operand, scalar):
            return Convert(replace_reads(operand, change), scalar)
        case _:
            return element


def replace_made(element: Element, made: Element) -> Element:
    """Return the expression with ``made`` in place of its operation's own result."""
    match element:
        case Made():
            return made
        case Call(function, operands):
            return Call(function, tuple(replace_made(part, made) for part in operands))
        case Convert(operand, scalar):
            return Convert(replace_made(operand, made), scalar)
        case _:
            return element


def _coordinate_with(coordinate: Coordinate, change: Callable[[Read], Element]) -> Coordinate:
    if coordinate.value is None:
        return coordinate
    return replace(coordinate, value=replace_reads(coordinate.value, change))


def moved(element: Element, coordinates: Sequence[Coordinate]) -> Element:
    """Return the expression with each axis i replaced by the coordinate ``coordinates[i]``."""
    match element:
        case Read(tensor, read_coordinates):
            return Read(
                tensor,
                tuple(moved_coordinate(coordinate, coordinates) for coordinate in read_coordinates),
            )
        case Position(axis):
            return position_at(coordinates[axis])
        case Call(function, operands):
            return Call(function, tuple(moved(operand, coordinates) for operand in operands))
        case Convert(operand, scalar):
            return Convert(moved(operand, coordinates), scalar)
        case _:
            return element


def moved_coordinate(coordinate: Coordinate, coordinates: Sequence[Coordinate]) -> Coordinate:
    """Return a coordinate with each axis i replaced by the coordinate ``coordinates[i]``."""
    terms: dict[int, Size] = {}
    offset = coordinate.offset
    value = None if coordinate.value is None else moved(coordinate.value, coordinates)
    for axis, times in coordinate.terms:
        other = coordinates[axis]
        offset = offset + times * other.offset
        for inner, count in other.terms:
            terms[inner] = terms.get(inner, 0) + times * count
        if other.value is not None:
            value = _sum(value, _times(other.value, times))
    nonzero_terms = tuple((axis, times) for axis, times in sorted(terms.items()) if times != 0)
    return Coordinate(nonzero_terms, offset, value)


def position_at(coordinate: Coordinate) -> Element:
    """Return a coordinate as an i64 element."""
    total: Element | None = coordinate.value
    for axis, times in coordinate.terms:
        total = _sum(total, _times(Position(axis), times))
    if total is None or coordinate.offset != 0:
        total = _sum(total, _size_element(coordinate.offset))
    return total


def is_identity(coordinates: Sequence[Coordinate], shape: Sequence[Size]) -> bool:
    """Return True if coordinates are the axes themselves, up to dimensions of size 1."""
    return len(coordinates) == len(shape) and all(
        coordinate == along(axis) or (size == 1 and coordinate == Coordinate())
        for axis, (coordinate, size) in enumerate(zip(coordinates, shape, strict=True))
    )


def _size_element(size: Size) -> Element:
    return Number(size, Scalar.I64) if isinstance(size, int) else SizeValue(size)


def _times(element: Element, times: Size) -> Element:
    return element if times == 1 else Call(Function.MUL, (element, _size_element(times)))


def _sum(left: Element | None, right: Element) -> Element:
    return right if left is None else Call(Function.ADD, (left, right))
