"""Places in a tensor as one number: how many elements lie before the one there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ortpkg.codegen.schedules.kernel_maker import strides_of
from ortpkg.codegen.tensor_ir.elements import Element, Place, Read, Tensor
from ortpkg.shapes.expressions import Size


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearPlace:
    """``offset`` plus axes times numbers plus elements times numbers.

    Attributes:
        terms: (axis, number), sorted by axis, no number 0.
        offset: where the place is when all axes are 0.
        values: (element of an integer kind, number).
    """

    terms: tuple[tuple[int, Size], ...]
    offset: Size
    values: tuple[tuple[Element, Size], ...]

    def stride(self, axis: int | None) -> Size:
        """How far the place moves along an axis, as far as axes move it."""
        return dict(self.terms).get(axis, 0) if axis is not None else 0


def linear_place(read: Read) -> LinearPlace:
    """Where a read reads."""
    return linear_place_in(read.tensor, read.places)


def linear_place_in(tensor: Tensor, places: Sequence[Place]) -> LinearPlace:
    """The place in a tensor that places along its dimensions say."""
    numbers: dict[int, Size] = {}
    offset: Size = 0
    values: list[tuple[Element, Size]] = []
    for place, stride in zip(places, strides_of(tensor.shape), strict=True):
        offset = offset + place.offset * stride
        for axis, number in place.terms:
            numbers[axis] = numbers.get(axis, 0) + number * stride
        if place.value is not None:
            values.append((place.value, stride))
    terms = tuple((axis, numbers[axis]) for axis in sorted(numbers) if numbers[axis] != 0)
    return LinearPlace(terms=terms, offset=offset, values=tuple(values))
