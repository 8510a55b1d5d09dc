"""The graphs inside a graph, and the topological order of a graph's nodes, by Kahn's algorithm."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from ortpkg.foundations.errors import InvalidGraphError
from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.load_control import poll_load


def all_graphs(graph: Graph) -> Iterator[Graph]:
    """Yield ``graph`` and the graphs inside it, in no particular order."""
    pending = [graph]
    while pending:
        current = pending.pop()
        yield current
        for node in current.nodes:
            pending.extend(node.subgraphs.values())


def topological_order(graph: Graph) -> list[int]:
    """Return the indices of all nodes, each after the producers of its inputs.

    Implicit inputs of sub-graphs count.

    Ties go to the node that is first in the graph, so a graph whose nodes are in order keeps that
    order. Each node and each edge is visited once; the ready nodes wait in a heap. The graph keeps
    the order until it changes.

    Raises:
        InvalidGraphError: with the name of a node of a cycle.
    """
    poll_load()
    if graph.use_lists.known_order is None:
        graph.use_lists.known_order = tuple(_order(graph))
    return list(graph.use_lists.known_order)


def _order(graph: Graph) -> list[int]:
    waits_for: dict[int, int] = {}
    successors: dict[int, list[int]] = {}
    ready: list[tuple[int, int]] = []
    for node in graph.nodes:
        producers = _producers(graph, node)
        for producer in producers:
            successors.setdefault(producer, []).append(node.index)
        waits_for[node.index] = len(producers)
        if not producers:
            ready.append((graph.position_of(node), node.index))
    heapify(ready)
    order: list[int] = []
    while ready:
        _, index = heappop(ready)
        order.append(index)
        for successor in successors.get(index, ()):
            waits_for[successor] -= 1
            if waits_for[successor] == 0:
                heappush(ready, (graph.position_of(graph.node(successor)), successor))
    if len(order) < len(waits_for):
        node = _node_on_cycle(graph, {index for index, count in waits_for.items() if count > 0})
        raise InvalidGraphError(f"the graph has a cycle through {node}", node_name=node.name)
    return order


def _producers(graph: Graph, node: Node) -> list[int]:
    """Return the indices of the nodes that make the inputs of ``node``, each once."""
    producers: dict[int, None] = {}
    for value in (*node.inputs, *node.implicit_inputs):
        producer = graph.producer_of(value) if value else None
        if producer is not None:
            producers[producer.index] = None
    return list(producers)


def _node_on_cycle(graph: Graph, stuck: set[int]) -> Node:
    """Walk from a stuck node to stuck producers, of which each has one, until one comes again."""
    index = min(stuck)
    visited: set[int] = set()
    while index not in visited:
        visited.add(index)
        index = next(
            producer for producer in _producers(graph, graph.node(index)) if producer in stuck
        )
    return graph.node(index)
