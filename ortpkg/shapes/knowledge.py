"""What inference knows of a value: its type, its sizes, and the elements of small whole-number tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ortpkg.graph.types import (
    Dimension,
    ElementType,
    OptionalType,
    SequenceType,
    SparseTensorType,
    TensorType,
    ValueType,
)
from ortpkg.shapes.expressions import Size

#: Sizes of a tensor's dimensions in order.
Sizes = tuple[Size, ...]

#: Of larger tensors no elements are followed.
MOST_ELEMENTS = 1024
#: Of dimensions; numpy has no more.
MOST_DIMENSIONS = 64

WHOLE_NUMBERS = frozenset({
    ElementType.INT8, ElementType.INT16, ElementType.INT32, ElementType.INT64, ElementType.BOOL,
    ElementType.UINT8, ElementType.UINT16, ElementType.UINT32, ElementType.UINT64,
})  # fmt: skip


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

    def __iter__(self) -> Iterator[Size | None]:
        return iter(self.values)


@dataclass(frozen=True, slots=True)
class KnownTensor:
    """A tensor; ``shape`` is None where not even the number of dimensions is known."""

    element_type: ElementType = ElementType.UNDEFINED
    shape: Sizes | None = None
    elements: Elements | None = None
    is_sparse: bool = False

    def without_elements(self) -> KnownTensor:
        """The same type and shape, with no value known."""
        return self if self.elements is None else replace(self, elements=None)


@dataclass(frozen=True, slots=True)
class KnownSequence:
    """Values of one type; ``element`` says what all of them have in common, None where nothing is known of them."""

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
    """The type as a graph holds it, each size as ``dimension`` writes it; None where the element type is not known."""
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
