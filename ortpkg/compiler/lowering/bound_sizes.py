"""Keeps what is known of a partition to the sizes that the shapes of its inputs give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ortpkg.graph.graph import Graph
from ortpkg.graph.shapes.expressions import Expression, Size, Symbol, symbols_of
from ortpkg.graph.shapes.knowledge import Elements, Knowledge, KnownTensor


def bound_symbols(body: Graph, knowledge: Mapping[str, Knowledge]) -> frozenset[Symbol]:
    """Return the symbols that are a whole dimension of some input."""
    sizes = (size for name in body.inputs for size in sizes_of(knowledge, name))
    return frozenset(
        size.symbol for size in sizes if isinstance(size, Expression) and size.symbol is not None
    )


def sizes_of(knowledge: Mapping[str, Knowledge], name: str) -> tuple[Size, ...]:
    """Return the sizes of a value, none if its shape is unknown."""
    value = knowledge.get(name)
    return (value.shape or ()) if isinstance(value, KnownTensor) else ()


def with_bound_elements(body: Graph, knowledge: Mapping[str, Knowledge]) -> Mapping[str, Knowledge]:
    """Return knowledge without elements that no input's shape gives.

    The elements of a shape that enters as a tensor may be sizes of other values, whose shapes do
    not enter. They are read from the tensor.
    """
    bound = bound_symbols(body, knowledge)
    return {name: _with_elements_of(value, bound) for name, value in knowledge.items()}


def _with_elements_of(value: Knowledge, bound: frozenset[Symbol]) -> Knowledge:
    if not isinstance(value, KnownTensor):
        return value
    if value.count is not None and not symbols_of(value.count) <= bound:
        value = replace(value, count=None)
    if value.elements is None:
        return value
    values = tuple(
        size if size is not None and symbols_of(size) <= bound else None for size in value.elements
    )
    return replace(value, elements=Elements(value.elements.shape, values))
