"""Knowledge of a value: type, sizes, and the elements of small whole-number tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ortpkg.graph.shapes.expression_bounds import fits
from ortpkg.graph.shapes.expressions import Size
from ortpkg.graph.types import (
    Dimension,
    ElementType,
    OptionalType,
    SequenceType,
    SparseTensorType,
    TensorType,
    ValueType,
)

#: Flat positions of elements, in C order.
Positions = npt.NDArray[np.int64]
#: Sizes of a tensor's dimensions in order.
Sizes = tuple[Size, ...]

#: Largest tensor whose elements are followed.
MOST_ELEMENTS = 1024
#: Assumed largest size of an unknown dimension, for numbers computed from it in 32 bits.
_LARGEST_DIMENSION = 1 << 28

#: Element types that are followed → their least and largest numbers.
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
    """A small tensor of whole numbers; ``values`` are in C order, None for unknown ones."""

    shape: tuple[int, ...]
    values: tuple[Size | None, ...]

    def __post_init__(self) -> None:
        assert len(self.values) == math.prod(self.shape)

    @property
    def numbers(self) -> tuple[int, ...] | None:
        """The values if all are known numbers, else None."""
        numbers = tuple(value for value in self.values if isinstance(value, int))
        return numbers if len(numbers) == len(self.values) else None

    @property
    def sizes(self) -> Sizes | None:
        """The values if all are known, possibly with symbols, else None."""
        sizes = tuple(value for value in self.values if value is not None)
        return sizes if len(sizes) == len(self.values) else None

    def moved(self, move: Callable[[Positions], Positions]) -> list[Size | None]:
        """Return the values in C order after a move that numpy makes for arrays of this shape."""
        positions = move(np.arange(len(self.values)).reshape(self.shape))
        return [self.values[position] for position in positions.reshape(-1).tolist()]

    def __iter__(self) -> Iterator[Size | None]:
        return iter(self.values)


@dataclass(frozen=True, slots=True)
class KnownTensor:
    """A tensor; ``shape`` is None if even the number of dimensions is unknown.

    ``count`` is the whole number that was cast to a tensor of one float.
    """

    element_type: ElementType = ElementType.UNDEFINED
    shape: Sizes | None = None
    elements: Elements | None = None
    is_sparse: bool = False
    count: Size | None = None

    def without_elements(self) -> KnownTensor:
        """Return the same type and shape, without known elements."""
        is_bare = self.elements is None and self.count is None
        return self if is_bare else replace(self, elements=None, count=None)

    def with_elements_in_range(self) -> KnownTensor:
        """Return the tensor without elements out of the type's range, which would wrap around."""
        if self.elements is None:
            return self
        if self.element_type not in WHOLE_NUMBERS:
            return replace(self, elements=None)
        in_range = tuple(
            value if value is None or _holds(self.element_type, value) else None
            for value in self.elements
        )
        if in_range == self.elements.values:
            return self
        return replace(self, elements=Elements(self.elements.shape, in_range))


def _holds(element_type: ElementType, value: Size) -> bool:
    low, high = WHOLE_NUMBERS[element_type]
    if isinstance(value, int) or high < 1 << 62:
        return fits(value, low, high, largest_symbol=_LARGEST_DIMENSION)
    return True  # products of 64 bits are followed as far as expressions allow


@dataclass(frozen=True, slots=True)
class KnownSequence:
    """Values of one type; ``element`` is what all have in common, None if nothing is known."""

    element: Knowledge | None


@dataclass(frozen=True, slots=True)
class KnownOptional:
    """A value that may be missing."""

    element: Knowledge | None


@dataclass(frozen=True, slots=True)
class KnownOther:
    """A value whose type has no sizes: a map."""

    type: ValueType


Knowledge = KnownTensor | KnownSequence | KnownOptional | KnownOther


def type_of(
    knowledge: Knowledge | None, dimension: Callable[[Size], Dimension]
) -> ValueType | None:
    """Return the type as a graph stores it, with sizes written by ``dimension``.

    None if the element type is unknown.
    """
    if isinstance(knowledge, KnownTensor):
        if knowledge.element_type is ElementType.UNDEFINED:
            return None
        shape = None if knowledge.shape is None else tuple(map(dimension, knowledge.shape))
        return (SparseTensorType if knowledge.is_sparse else TensorType)(
            knowledge.element_type, shape
        )
    if isinstance(knowledge, KnownSequence | KnownOptional):
        element = type_of(knowledge.element, dimension)
        if element is None:
            return None
        return (
            SequenceType(element) if isinstance(knowledge, KnownSequence) else OptionalType(element)
        )
    return None if knowledge is None else knowledge.type
