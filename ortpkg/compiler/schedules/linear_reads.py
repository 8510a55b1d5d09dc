"""Linear indices of elements: the number of elements before them in their tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ortpkg.compiler.schedules.kernel_maker import strides_of
from ortpkg.compiler.tensor_ir.elements import Coordinate, Element, Read, Tensor
from ortpkg.graph.shapes.expressions import Size


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearIndex:
    """A linear index: ``offset`` plus axes times strides plus elements times strides.

    Attributes:
        terms: (axis, stride), sorted by axis, without strides of 0.
        offset: the index when all axes are 0.
        values: (integer element, stride).
    """

    terms: tuple[tuple[int, Size], ...]
    offset: Size
    values: tuple[tuple[Element, Size], ...]

    def stride(self, axis: int | None) -> Size:
        """Return the change of the index for a step along an axis, apart from ``values``."""
        return dict(self.terms).get(axis, 0) if axis is not None else 0


def linear_index(read: Read) -> LinearIndex:
    """Return the linear index of a read."""
    return flattened_coordinates(read.tensor, read.coordinates)


def flattened_coordinates(tensor: Tensor, coordinates: Sequence[Coordinate]) -> LinearIndex:
    """Return the linear index of coordinates in a tensor."""
    numbers: dict[int, Size] = {}
    offset: Size = 0
    values: list[tuple[Element, Size]] = []
    for coordinate, stride in zip(coordinates, strides_of(tensor.shape), strict=True):
        offset = offset + coordinate.offset * stride
        for axis, number in coordinate.terms:
            numbers[axis] = numbers.get(axis, 0) + number * stride
        if coordinate.value is not None:
            values.append((coordinate.value, stride))
    terms = tuple((axis, numbers[axis]) for axis in sorted(numbers) if numbers[axis] != 0)
    return LinearIndex(terms=terms, offset=offset, values=tuple(values))
