"""Changes expressions of elements: other places, other reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ortpkg.codegen.loop_ir.loop_types import Scalar
from ortpkg.codegen.tensor_ir.elements import (
    Call,
    Convert,
    Element,
    Function,
    Made,
    Number,
    Place,
    Position,
    Read,
    SizeValue,
    along,
)
from ortpkg.shapes.expressions import Size


def replace_reads(element: Element, change: Callable[[Read], Element]) -> Element:
    """The expression with each read changed, from the inside out."""
    match element:
        case Read(tensor, places):
            return change(Read(tensor, tuple(_place_with(each, change) for each in places)))
        case Call(function, operands):
            return Call(function, tuple(replace_reads(each, change) for each in operands))
        case Convert(operand, scalar):
            return Convert(replace_reads(operand, change), scalar)
        case _:
            return element


def replace_made(element: Element, made: Element) -> Element:
    """The expression with another element for what its operation makes."""
    match element:
        case Made():
            return made
        case Call(function, operands):
            return Call(function, tuple(replace_made(each, made) for each in operands))
        case Convert(operand, scalar):
            return Convert(replace_made(operand, made), scalar)
        case _:
            return element


def _place_with(place: Place, change: Callable[[Read], Element]) -> Place:
    if place.value is None:
        return place
    return replace(place, value=replace_reads(place.value, change))


def moved(element: Element, places: Sequence[Place]) -> Element:
    """The expression with each axis at another place: axis i stands at ``places[i]``."""
    match element:
        case Read(tensor, own):
            return Read(tensor, tuple(moved_place(each, places) for each in own))
        case Position(axis):
            return position_at(places[axis])
        case Call(function, operands):
            return Call(function, tuple(moved(each, places) for each in operands))
        case Convert(operand, scalar):
            return Convert(moved(operand, places), scalar)
        case _:
            return element


def moved_place(place: Place, places: Sequence[Place]) -> Place:
    """A place over axes that stand at ``places``."""
    terms: dict[int, Size] = {}
    offset = place.offset
    value = None if place.value is None else moved(place.value, places)
    for axis, times in place.terms:
        other = places[axis]
        offset = offset + times * other.offset
        for inner, count in other.terms:
            terms[inner] = terms.get(inner, 0) + times * count
        if other.value is not None:
            value = _sum(value, _times(other.value, times))
    kept = tuple((axis, times) for axis, times in sorted(terms.items()) if times != 0)
    return Place(kept, offset, value)


def position_at(place: Place) -> Element:
    """A place as an i64 element."""
    total: Element | None = place.value
    for axis, times in place.terms:
        total = _sum(total, _times(Position(axis), times))
    if total is None or place.offset != 0:
        total = _sum(total, _size_element(place.offset))
    return total


def is_identity(places: Sequence[Place], shape: Sequence[Size]) -> bool:
    """Whether places are the axes themselves: those that an element of the shape stands at."""
    return len(places) == len(shape) and all(
        place == along(axis) or (size == 1 and place == Place())
        for axis, (place, size) in enumerate(zip(places, shape, strict=True))
    )


def _size_element(size: Size) -> Element:
    return Number(size, Scalar.I64) if isinstance(size, int) else SizeValue(size)


def _times(element: Element, times: Size) -> Element:
    return element if times == 1 else Call(Function.MUL, (element, _size_element(times)))


def _sum(left: Element | None, right: Element) -> Element:
    return right if left is None else Call(Function.ADD, (left, right))
