"""How many bytes each value takes, as far as its type tells, for the allocation planner."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import cache

from ortpkg.engine.execution_plan import ABSENT, ExecutionPlan
from ortpkg.graph.graph import Graph
from ortpkg.graph.types import Dimension, ElementType, TensorType, ValueType, numpy_dtype
from ortpkg.shapes.expression_text import size_of_text
from ortpkg.shapes.expressions import Expression, Size, TooLargeError, symbol
from ortpkg.shapes.size_operations import product

#: Of a value's name, which a symbol is called after.
_LONGEST_NAME = 200


def value_sizes(graph: Graph, plan: ExecutionPlan) -> list[Size | None]:
    """The size in bytes of each value of ``plan``, an expression where it has symbols.

    None for what is not a tensor of numbers.

    A dimension without a name is a symbol of its own: such a value can be laid out after a traced
    run, but nothing is known to be of the same size.
    """
    names = declared_dimensions(graph)
    read = cache(lambda text: size_of_text(text, names))
    return [_size_of(graph, plan.values.name_of(index), read) for index in range(len(plan.values))]


def declared_dimensions(graph: Graph) -> frozenset[str]:
    """Names that the inputs of a graph, and of those around it, give their dimensions."""
    found: set[str] = set()
    current: Graph | None = graph
    while current is not None:
        for name in current.inputs:
            found |= {
                dimension
                for dimension in _dimensions(current.types.get(name))
                if isinstance(dimension, str)
            }
        current = current.parent
    return frozenset(found)


def symbol_sources(graph: Graph, plan: ExecutionPlan) -> Mapping[str, tuple[int, int]]:
    """Symbol → (position of the feed, axis) that says what it is in a run.

    Unnamed dimensions are symbols too.

    Feeds are the graph's inputs, in order. An input with a default of its own may be left out, and
    says nothing.
    """
    found: dict[str, tuple[int, int]] = {}
    for position, index in enumerate(plan.inputs):
        if index == ABSENT or index in plan.initializers:
            continue
        name = plan.values.name_of(index)
        for axis, dimension in enumerate(_dimensions(graph.types.get(name))):
            if not isinstance(dimension, int):
                found.setdefault(dimension or _unnamed(axis, name), (position, axis))
    return found


def _dimensions(known: ValueType | None) -> tuple[Dimension, ...]:
    return known.shape if isinstance(known, TensorType) and known.shape is not None else ()


def _unnamed(axis: int, name: str) -> str:
    return f"dimension {axis} of {name}"


def _unknown_size(name: str) -> Expression:
    """The symbol of a value of which nothing else is known: of its own, whatever it is called."""
    if len(name) > _LONGEST_NAME:
        # A text as long as a model likes would be more than an expression holds.
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
        name = f"{name[:_LONGEST_NAME]}... ({digest})"
    return symbol(f"size of {name}")


def _size_of(graph: Graph, name: str, read: Callable[[str], Size]) -> Size | None:
    found = graph.type_of(name)
    if not isinstance(found, TensorType) or found.element_type in {
        ElementType.STRING,
        ElementType.UNDEFINED,
    }:
        return None
    itemsize = numpy_dtype(found.element_type).itemsize
    if found.shape is None:
        return itemsize * _unknown_size(name)
    sizes = [
        read(dimension) if isinstance(dimension, str) else dimension for dimension in found.shape
    ]
    known = [
        symbol(_unnamed(axis, name)) if size is None else size for axis, size in enumerate(sizes)
    ]
    try:
        return product([itemsize, *known])
    except TooLargeError:
        return itemsize * _unknown_size(name)
