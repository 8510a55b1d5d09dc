"""Fix symbolic dimensions to the sizes that session options give, by name or denotation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ortpkg.foundations.errors import InvalidSessionOptionError, quoted
from ortpkg.graph.graph import Graph
from ortpkg.graph.types import Dimension, TensorType


def override_free_dimensions(
    graph: Graph, by_name: Mapping[str, int], by_denotation: Mapping[str, int] | None = None
) -> None:
    """Set dimensions to their sizes in ``graph`` and all graphs inside it.

    Args:
        graph: the graph, changed in place.
        by_name: symbolic dimension → size.
        by_denotation: denotation of an input's dimension → size.

    Raises:
        InvalidSessionOptionError: two sizes for one dimension, or a size that differs from a fixed
            dimension's.
    """
    sizes = dict(by_name)
    for name, axis, dimension, size in _denoted(graph, by_denotation or {}):
        if dimension is None:
            _set_size(graph, name, axis, size)
        elif isinstance(dimension, int):
            _check_same(f"dimension {axis} of input {quoted(name)}", dimension, size)
        else:
            _check_same(f"dimension {quoted(dimension)}", sizes.setdefault(dimension, size), size)
    if sizes:
        _override_by_name(graph, sizes)


def _denoted(graph: Graph, sizes: Mapping[str, int]) -> Iterator[tuple[str, int, Dimension, int]]:
    """Yield the dimensions of inputs sized by denotation: input, axis, declared dimension, size."""
    for name in graph.inputs:
        value_type = graph.type_of(name)
        annotation = graph.annotations.get(name)
        if annotation is None or not isinstance(value_type, TensorType) or value_type.shape is None:
            continue
        for axis, (dimension, denotation) in enumerate(
            zip(value_type.shape, annotation.dim_denotations, strict=False)
        ):
            if denotation in sizes:
                yield name, axis, dimension, sizes[denotation]


def _check_same(what: str, first: int, second: int) -> None:
    if first != second:
        raise InvalidSessionOptionError(
            f"the overrides of free dimensions contradict each other: {what} would be {first} and"
            f" {second}",
            key="denotation",
        )


def _set_size(graph: Graph, name: str, axis: int, size: int) -> None:
    value_type = graph.type_of(name)
    assert isinstance(value_type, TensorType)
    assert value_type.shape is not None
    shape = (*value_type.shape[:axis], size, *value_type.shape[axis + 1 :])
    graph.set_type(name, TensorType(value_type.element_type, shape))


def _override_by_name(graph: Graph, sizes: Mapping[str, int]) -> None:
    for name, value_type in list(graph.types.items()):
        if isinstance(value_type, TensorType) and value_type.shape is not None:
            shape = tuple(
                sizes.get(dimension, dimension) if isinstance(dimension, str) else dimension
                for dimension in value_type.shape
            )
            graph.set_type(name, TensorType(value_type.element_type, shape))
    for node in graph.nodes:
        for subgraph in node.subgraphs.values():
            _override_by_name(subgraph, sizes)
