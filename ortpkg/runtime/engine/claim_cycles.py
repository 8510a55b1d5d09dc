"""Check that the claims on a graph can become single nodes without creating a cycle."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ortpkg.graph.graph import Graph, Node


def are_free_of_cycles(graph: Graph, claims: Sequence[Collection[int]]) -> bool:
    """Return True if all claims, or any subset of them, can become one node each; linear time.

    Return False also if claims share a node: then it depends on which of them counts.
    """
    claim_of: dict[int, int] = {}
    for number, indices in enumerate(claims):
        for index in set(indices):
            if index in claim_of:
                return False
            claim_of[index] = -1 - number
    waits_for: dict[int, int] = {}
    successors: dict[int, list[int]] = {}
    for node in graph.nodes:
        unit = claim_of.get(node.index, node.index)
        waits_for.setdefault(unit, 0)
        for user in {claim_of.get(user, user) for user in _users(graph, node)} - {unit}:
            successors.setdefault(unit, []).append(user)
            waits_for[user] = waits_for.get(user, 0) + 1
    ready = [candidate for candidate, count in waits_for.items() if count == 0]
    remaining = len(waits_for)
    while ready:
        remaining -= 1
        for successor in successors.get(ready.pop(), ()):
            waits_for[successor] -= 1
            if waits_for[successor] == 0:
                ready.append(successor)
    return remaining == 0


def leaves_and_returns(graph: Graph, nodes: Sequence[Node], order: Sequence[int]) -> bool:
    """Return True if a path leads out of ``nodes`` and back into them.

    Linear in the graph, whose topological order is ``order``.
    """
    inside = {node.index for node in nodes}
    positions = {index: position for position, index in enumerate(order)}
    last = max(positions[index] for index in inside)
    waiting = [user for node in nodes for user in _users(graph, node) if user not in inside]
    visited = set(waiting)
    while waiting:
        for user in _users(graph, graph.node(waiting.pop())):
            if user in inside:
                return True
            if user not in visited and positions[user] < last:
                visited.add(user)
                waiting.append(user)
    return False


def _users(graph: Graph, node: Node) -> list[int]:
    return [use.node_index for value in node.outputs if value for use in graph.consumers_of(value)]
