"""Finds values that cross a partition's border: native libraries take some element types only."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.types import ElementType, TensorType
from ortpkg.runtime.providers.execution_provider import GraphViewer


@dataclass(frozen=True, slots=True)
class PartitionBorder:
    """Border to a library.

    Attributes:
        types: element types that may cross it.
    """

    types: frozenset[ElementType]

    def is_crossed_by(self, graph: Graph, value: str) -> bool:
        """Return True if ``value`` is a tensor of such a type; False if its type is unknown."""
        value_type = _type_of(graph, value)
        return isinstance(value_type, TensorType) and value_type.element_type in self.types

    def foreign_values(self, viewer: GraphViewer, candidates: Collection[int]) -> Mapping[int, str]:
        """Return the nodes with a value that cannot cross to or from others: index → value."""
        foreign_by_node = {}
        for node in (node for node in viewer.nodes if node.index in candidates):
            values = _border_values(viewer.graph, node, candidates)
            foreign = next(
                (value for value in values if not self.is_crossed_by(viewer.graph, value)), None
            )
            if foreign is not None:
                foreign_by_node[node.index] = foreign
        return foreign_by_node

    def has_foreign_values(self, graph: Graph, node: Node) -> bool:
        """Return True if ``node``, or one inside, has values of a known type that cannot cross."""
        values = filter(None, (*node.inputs, *node.implicit_inputs, *node.outputs))
        if any(
            _type_of(graph, value) is not None and not self.is_crossed_by(graph, value)
            for value in values
        ):
            return True
        return any(
            self.has_foreign_values(inner, inner_node)
            for inner in node.subgraphs.values()
            for inner_node in inner.nodes
        )


def _border_values(graph: Graph, node: Node, inside: Collection[int]) -> Iterator[str]:
    """Yield the values of ``node`` that cross the border of the nodes ``inside``."""
    for value in filter(None, (*node.inputs, *node.implicit_inputs)):
        producer = graph.producer_of(value)
        if (producer is None or producer.index not in inside) and graph.constant(value) is None:
            yield value
    for value in filter(None, node.outputs):
        if graph.is_output(value) or any(
            use.node_index not in inside for use in graph.consumers_of(value)
        ):
            yield value


def _type_of(graph: Graph, value: str) -> object:
    """Return a value's type, known in ``graph`` or a graph around it; None if it is unknown."""
    current: Graph | None = graph
    while current is not None:
        value_type = current.type_of(value)
        if value_type is not None:
            return value_type
        current = current.parent
    return None
