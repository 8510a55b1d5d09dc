"""Sizes of values in bytes, as far as their types tell, for the allocation planner."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import cache

from ortpkg.graph.graph import Graph
from ortpkg.graph.shapes.expression_text import size_of_text
from ortpkg.graph.shapes.expressions import Expression, Size, TooLargeError, symbol
from ortpkg.graph.shapes.size_operations import product
from ortpkg.graph.types import Dimension, ElementType, TensorType, ValueType, numpy_dtype
from ortpkg.runtime.engine.execution_plan import ABSENT, ExecutionPlan

#: Longest name of a value, in characters, that a symbol is named after.
_LONGEST_NAME = 200


def value_sizes(graph: Graph, plan: ExecutionPlan) -> list[Size | None]:
    """Return the size in bytes of each value of ``plan``, an expression if it has symbols.

    None for values that are not numeric tensors. A dimension without a name is a symbol of its own:
    such a value can be laid out after a traced run, but no other is known to have the same size.
    """
    names = declared_dimensions(graph)
    read = cache(lambda text: size_of_text(text, names))
    return [_size_of(graph, plan.values.name_of(index), read) for index in range(len(plan.values))]


def declared_dimensions(graph: Graph) -> frozenset[str]:
    """Return the names of dimensions in the inputs of a graph, and of those around it."""
    names: set[str] = set()
    current: Graph | None = graph
    while current is not None:
        for name in current.inputs:
            names |= {
                dimension
                for dimension in _dimensions(current.types.get(name))
                if isinstance(dimension, str)
            }
        current = current.parent
    return frozenset(names)


def symbol_sources(graph: Graph, plan: ExecutionPlan) -> Mapping[str, tuple[int, int]]:
    """Return symbol → (position of the feed, axis) that has its value in a run.

    Unnamed dimensions are symbols too. Feeds are the graph's inputs, in order. An input with a
    default may be left out, and determines nothing.
    """
    sources: dict[str, tuple[int, int]] = {}
    for position, index in enumerate(plan.inputs):
        if index == ABSENT or index in plan.initializers:
            continue
        name = plan.values.name_of(index)
        for axis, dimension in enumerate(_dimensions(graph.types.get(name))):
            if not isinstance(dimension, int):
                sources.setdefault(dimension or _unnamed(axis, name), (position, axis))
    return sources


def _dimensions(value_type: ValueType | None) -> tuple[Dimension, ...]:
    return (
        value_type.shape
        if isinstance(value_type, TensorType) and value_type.shape is not None
        else ()
    )


def _unnamed(axis: int, name: str) -> str:
    return f"dimension {axis} of {name}"


def _unknown_size(name: str) -> Expression:
    """Return a new symbol for a value of unknown size, whatever its name."""
    if len(name) > _LONGEST_NAME:
        # A model's name may be longer than an expression can hold.
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
        name = f"{name[:_LONGEST_NAME]}... ({digest})"
    return symbol(f"size of {name}")


def _size_of(graph: Graph, name: str, read: Callable[[str], Size]) -> Size | None:
    value_type = graph.type_of(name)
    if not isinstance(value_type, TensorType) or value_type.element_type in {
        ElementType.STRING,
        ElementType.UNDEFINED,
    }:
        return None
    itemsize = numpy_dtype(value_type.element_type).itemsize
    if value_type.shape is None:
        return itemsize * _unknown_size(name)
    sizes = [
        read(dimension) if isinstance(dimension, str) else dimension
        for dimension in value_type.shape
    ]
    factors = [
        symbol(_unnamed(axis, name)) if size is None else size for axis, size in enumerate(sizes)
    ]
    try:
        return product([itemsize, *factors])
    except TooLargeError:
        return itemsize * _unknown_size(name)
