"""What inference knows of a value: type, sizes, the elements of small whole-number tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ortpkg.graph.types import (
    Dimension,
    ElementType,
    OptionalType,
    SequenceType,
    SparseTensorType,
    TensorType,
    ValueType,
)
from ortpkg.shapes.expression_bounds import fits
from ortpkg.shapes.expressions import Size

#: Flat positions of elements, in C order.
Positions = npt.NDArray[np.int64]
#: Sizes of a tensor's dimensions in order.
Sizes = tuple[Size, ...]

#: Of larger tensors no elements are followed.
MOST_ELEMENTS = 1024
#: What a dimension without a number is taken for where 32 bits have to hold what is computed of it.
_LARGEST_DIMENSION = 1 << 28

#: Element types that are followed → the least and the largest number that they hold.
WHOLE_NUMBERS: Mapping[ElementType, tuple[int, int]] = {
    ElementType.BOOL: (0, 1),
    ElementType.INT8: (-(1 << 7), (1 << 7) - 1),
    ElementType.INT16: (-(1 << 15), (1 << 15) - 1),
    ElementType.INT32: (-(1 << 31), (1 << 31) - 1),
    ElementType.INT64: (-(1 << 63), (1 << 63) - 1),
    ElementType.UINT8: (0, (1 << 8) - 1),
    ElementType.UINT16: (0, (1 << 16) - 1),
    ElementType.UINT32: (0, (1 << 32) - 1),
    ElementType.UINT64: (0, (1 << 64) - 1),
}


@dataclass(frozen=True, slots=True)
class Elements:
    """A small tensor of whole numbers. ``values``: in C order, None for each that is not known."""

    shape: tuple[int, ...]
    values: tuple[Size | None, ...]

    def __post_init__(self) -> None:
        assert len(self.values) == math.prod(self.shape)

    @property
    def numbers(self) -> tuple[int, ...] | None:
        """The values where all are known numbers, else None."""
        found = tuple(value for value in self.values if isinstance(value, int))
        return found if len(found) == len(self.values) else None

    @property
    def sizes(self) -> Sizes | None:
        """The values where all are known, perhaps with symbols, else None."""
        found = tuple(value for value in self.values if value is not None)
        return found if len(found) == len(self.values) else None

    def moved(self, move: Callable[[Positions], Positions]) -> list[Size | None]:
        """The values in C order after a move that numpy makes of any array of that shape."""
        positions = move(np.arange(len(self.values)).reshape(self.shape))
        return [self.values[position] for position in positions.reshape(-1).tolist()]

    def __iter__(self) -> Iterator[Size | None]:
        return iter(self.values)


@dataclass(frozen=True, slots=True)
class KnownTensor:
    """A tensor; ``shape`` is None where not even the number of dimensions is known.

    ``count``: of a tensor of one float that a whole number was cast to, that number.
    """

    element_type: ElementType = ElementType.UNDEFINED
    shape: Sizes | None = None
    elements: Elements | None = None
    is_sparse: bool = False
    count: Size | None = None

    def without_elements(self) -> KnownTensor:
        """The same type and shape, with no value known."""
        is_bare = self.elements is None and self.count is None
        return self if is_bare else replace(self, elements=None, count=None)

    def with_elements_in_range(self) -> KnownTensor:
        """The same without numbers beyond the element type, which a run would wrap around."""
        if self.elements is None:
            return self
        if self.element_type not in WHOLE_NUMBERS:
            return replace(self, elements=None)
        kept = tuple(
            value if value is None or _holds(self.element_type, value) else None
            for value in self.elements
        )
        if kept == self.elements.values:
            return self
        return replace(self, elements=Elements(self.elements.shape, kept))


def _holds(element_type: ElementType, value: Size) -> bool:
    low, high = WHOLE_NUMBERS[element_type]
    if isinstance(value, int) or high < 1 << 62:
        return fits(value, low, high, largest_symbol=_LARGEST_DIMENSION)
    return True  # products of 64 bits are followed as far as expressions go


@dataclass(frozen=True, slots=True)
class KnownSequence:
    """Values of one type; ``element`` is what all have in common, None where nothing is known."""

    element: Knowledge | None


@dataclass(frozen=True, slots=True)
class KnownOptional:
    """A value, or none."""

    element: Knowledge | None


@dataclass(frozen=True, slots=True)
class KnownOther:
    """A value whose type holds no sizes: a map."""

    type: ValueType


Knowledge = KnownTensor | KnownSequence | KnownOptional | KnownOther


def type_of(known: Knowledge | None, dimension: Callable[[Size], Dimension]) -> ValueType | None:
    """The type as a graph holds it, each size as ``dimension`` writes it.

    None where the element type is not known.
    """
    if isinstance(known, KnownTensor):
        if known.element_type is ElementType.UNDEFINED:
            return None
        shape = None if known.shape is None else tuple(map(dimension, known.shape))
        return (SparseTensorType if known.is_sparse else TensorType)(known.element_type, shape)
    if isinstance(known, KnownSequence | KnownOptional):
        element = type_of(known.element, dimension)
        if element is None:
            return None
        return SequenceType(element) if isinstance(known, KnownSequence) else OptionalType(element)
    return None if known is None else known.type
