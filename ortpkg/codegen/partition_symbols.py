"""Which sizes of a partition follow from the shapes of its inputs."""

from __future__ import annotations

from collections.abc import Sequence

from ortpkg.graph.graph import Graph
from ortpkg.graph.types import TensorType
from ortpkg.shapes.expression_text import size_of_text
from ortpkg.shapes.expressions import Expression, Size, symbols_of


def unbound_symbols(graph: Graph, nodes: Sequence[int], inputs: Sequence[str]) -> tuple[str, ...]:
    """Symbols in the sizes of what nodes make that no input's dimension is, sorted.

    Args:
        graph: whose types are known.
        nodes: of the partition, by index.
        inputs: values that the partition takes.
    """
    bound = {
        each.symbol.name
        for name in inputs
        for each in _sizes(graph, name)
        if isinstance(each, Expression) and each.symbol is not None
    }
    used = {
        symbol.name
        for index in nodes
        for name in graph.node(index).outputs
        for size in _sizes(graph, name)
        for symbol in symbols_of(size)
    }
    used |= {
        symbol.name
        for name in inputs
        for size in _sizes(graph, name)
        for symbol in symbols_of(size)
    }
    return tuple(sorted(used - bound))


def _sizes(graph: Graph, name: str) -> tuple[Size, ...]:
    found = graph.type_of(name) if name else None
    if not isinstance(found, TensorType) or found.shape is None:
        return ()
    return tuple(
        size_of_text(each) if isinstance(each, str) else each
        for each in found.shape
        if each is not None
    )
