"""Which values cross a partition's border: native libraries take some element types only."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.types import ElementType, TensorType
from ortpkg.providers.execution_provider import GraphViewer


@dataclass(frozen=True, slots=True)
class PartitionBorder:
    """The border to a library.

    Attributes:
        types: element types that cross it.
    """

    types: frozenset[ElementType]

    def is_crossed_by(self, graph: Graph, value: str) -> bool:
        """Whether ``value`` is a tensor of such a type; not where its type is unknown."""
        found = _type_of(graph, value)
        return isinstance(found, TensorType) and found.element_type in self.types

    def foreign_values(self, viewer: GraphViewer, candidates: Collection[int]) -> Mapping[int, str]:
        """Nodes of ``candidates`` that exchange with others what cannot cross: index → value."""
        found = {}
        for node in (node for node in viewer.nodes if node.index in candidates):
            values = _border_values(viewer.graph, node, candidates)
            foreign = next(
                (value for value in values if not self.is_crossed_by(viewer.graph, value)), None
            )
            if foreign is not None:
                found[node.index] = foreign
        return found

    def has_foreign_values(self, graph: Graph, node: Node) -> bool:
        """Whether ``node``, or one inside, has values of a known type that cannot cross."""
        values = filter(None, (*node.inputs, *node.implicit_inputs, *node.outputs))
        if any(
            _type_of(graph, value) is not None and not self.is_crossed_by(graph, value)
            for value in values
        ):
            return True
        return any(
            self.has_foreign_values(inner, each)
            for inner in node.subgraphs.values()
            for each in inner.nodes
        )


def _border_values(graph: Graph, node: Node, inside: Collection[int]) -> Iterator[str]:
    """Values that ``node`` takes from outside of the nodes ``inside``, and those that it gives."""
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
    """Its type, known in ``graph`` or a graph around it; None where it is not."""
    current: Graph | None = graph
    while current is not None:
        found = current.type_of(value)
        if found is not None:
            return found
        current = current.parent
    return None
