"""How many bytes each value takes, as far as its type tells: what the allocation planner plans with."""

from __future__ import annotations

import math

from ortpkg.engine.allocation_planner import ByteSize
from ortpkg.engine.execution_plan import ExecutionPlan
from ortpkg.graph.graph import Graph
from ortpkg.graph.types import ElementType, TensorType, numpy_dtype


def value_sizes(graph: Graph, plan: ExecutionPlan) -> list[ByteSize | None]:
    """The size of each value of ``plan``; None for what is not a tensor of numbers.

    A dimension without a name is a symbol of its own: such a value can be laid out after a traced run, but nothing is
    known to be of the same size.
    """
    return [_size_of(graph, plan.values.name_of(index)) for index in range(len(plan.values))]


def _size_of(graph: Graph, name: str) -> ByteSize | None:
    found = graph.type_of(name)
    if not isinstance(found, TensorType) or found.element_type in {ElementType.STRING, ElementType.UNDEFINED}:
        return None
    itemsize = numpy_dtype(found.element_type).itemsize
    if found.shape is None:
        return ByteSize(itemsize, (f"size of {name}",))
    known = math.prod(dimension for dimension in found.shape if isinstance(dimension, int))
    symbols = tuple(
        sorted(
            dimension or f"dimension {axis} of {name}"
            for axis, dimension in enumerate(found.shape)
            if not isinstance(dimension, int)
        )
    )
    return ByteSize(itemsize * known, symbols if known else ())
