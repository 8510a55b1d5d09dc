"""Merges two pieces of knowledge: branches of an If, states of a loop, sequence elements."""

from __future__ import annotations

from collections.abc import Callable

from ortpkg.graph.shapes.expressions import Expression, Size
from ortpkg.graph.shapes.knowledge import (
    Elements,
    Knowledge,
    KnownOptional,
    KnownOther,
    KnownSequence,
    KnownTensor,
)


def common(
    left: Knowledge | None, right: Knowledge | None, new_size: Callable[[], Expression]
) -> Knowledge | None:
    """Return what holds for a value that is either of both; None if nothing is known."""
    if left is None or right is None:
        return None
    if isinstance(left, KnownTensor) and isinstance(right, KnownTensor):
        return _common_tensor(left, right, new_size)
    if isinstance(left, KnownSequence) and isinstance(right, KnownSequence):
        return KnownSequence(common(left.element, right.element, new_size))
    if isinstance(left, KnownOptional) and isinstance(right, KnownOptional):
        return KnownOptional(common(left.element, right.element, new_size))
    if isinstance(left, KnownOther) and left == right:
        return left
    return None


def _common_tensor(
    left: KnownTensor, right: KnownTensor, new_size: Callable[[], Expression]
) -> KnownTensor | None:
    if left.element_type != right.element_type:
        return None
    if left.shape is None or right.shape is None or len(left.shape) != len(right.shape):
        return KnownTensor(left.element_type, None)
    pairs = zip(left.shape, right.shape, strict=True)
    shape: tuple[Size, ...] = tuple(one if one == other else new_size() for one, other in pairs)
    return KnownTensor(left.element_type, shape, _common_elements(left.elements, right.elements))


def _common_elements(left: Elements | None, right: Elements | None) -> Elements | None:
    if left is None or right is None or left.shape != right.shape:
        return None
    pairs = zip(left.values, right.values, strict=True)
    return Elements(left.shape, tuple(one if one == other else None for one, other in pairs))
