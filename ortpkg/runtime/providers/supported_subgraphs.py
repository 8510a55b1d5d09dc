"""Groups the nodes that a provider can run into maximal partitions that can be fused.

Two supported nodes may lie in one partition if no path between them leads through a node outside of
it: fused, such a partition would depend on itself. Nodes are taken in topological order; each joins
the partition of one of its producers if that makes no cycle, else it begins a new one. If the
knowledge of paths takes too much memory, as with 25,000 nodes of which every second is supported,
partitions end there and others begin.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.load_control import poll_load
from ortpkg.runtime.providers.execution_provider import ComputeCapability, GraphViewer, MetaDef


def supported_subgraphs(
    viewer: GraphViewer, supported: Collection[int], *, joins_apart: bool = False
) -> list[tuple[int, ...]]:
    """Return the node indices of each partition, every one convex, in order of their first nodes.

    Args:
        viewer: the graph, its nodes in topological order.
        supported: indices of the nodes that the provider would take.
        joins_apart: True if nodes that no path connects may be one partition, too.
    """
    return _Grouping(viewer, frozenset(supported)).groups(joins_apart=joins_apart)


def subgraph_signature(
    graph: Graph, indices: Sequence[int]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of a set of nodes' inputs (no constants) and outputs.

    Those of the graph come first and in its order, then the others in order of use.
    """
    inside = frozenset(indices)
    nodes = [graph.node(index) for index in indices]
    made = {value for node in nodes for value in node.outputs if value}
    needed = dict.fromkeys(
        value for node in nodes for value in (*node.inputs, *node.implicit_inputs) if value
    )
    inputs = tuple(value for value in needed if value not in made and graph.constant(value) is None)
    outputs = tuple(
        value
        for node in nodes
        for value in node.outputs
        if value
        and (
            graph.is_output(value)
            or any(use.node_index not in inside for use in graph.consumers_of(value))
        )
    )
    return _in_order(inputs, graph.input_place), _in_order(outputs, graph.output_place)


def subgraph_claim(graph: Graph, indices: tuple[int, ...], name: str) -> ComputeCapability | None:
    """Return the claim of a set of nodes as one partition; None if nobody uses what they make."""
    inputs, outputs = subgraph_signature(graph, indices)
    if not outputs:
        return None
    return ComputeCapability(
        node_indices=indices, meta_def=MetaDef(name=name, inputs=inputs, outputs=outputs)
    )


def _in_order(values: Sequence[str], position_of: Callable[[str], int | None]) -> tuple[str, ...]:
    """Return the values that have a position first, by it, then the others as they are."""
    placed = [(position, value) for value in values if (position := position_of(value)) is not None]
    others = [value for value in values if position_of(value) is None]
    return (*(value for _, value in sorted(placed)), *others)


#: Most other groups that a group without paths to them is tried to be joined with.
_MOST_TRIED = 8
#: Most memory for the bits of ``_Grouping._needs``.
_MOST_NEEDS_NBYTES = 32 << 20


class _Grouping:
    """Groups of nodes; an unsupported node is a group of its own that nobody joins.

    ``_needs`` has for each group the groups that it depends on, directly or not, as bits of an
    integer; ``_users`` the groups that depend on it directly. A group that was merged into another
    is an alias of it. Nobody joins a group before ``_first``, so that nobody asks what needs it: no
    path leads from a later group through it to another later one.
    """

    def __init__(self, viewer: GraphViewer, supported: frozenset[int]) -> None:
        self._graph = viewer.graph
        self._order = viewer.order
        self._supported = supported
        self._group_of: dict[int, int] = {}
        self._members: list[list[int]] = []
        self._is_open: list[bool] = []
        self._needs: list[int] = []
        self._users: list[set[int]] = []
        self._alias: list[int] = []
        self._first = 0
        self._needs_nbytes = 0

    def groups(self, *, joins_apart: bool = False) -> list[tuple[int, ...]]:
        """Return the partitions, each in topological order, by their first nodes."""
        for index in self._order:
            poll_load()
            if self._needs_nbytes > _MOST_NEEDS_NBYTES:
                self._begin_anew()
            self._place(index)
        if joins_apart:
            self._join_apart()
        position = {index: number for number, index in enumerate(self._order)}
        open_groups = [
            sorted(members, key=position.__getitem__)
            for group, members in enumerate(self._members)
            if self._is_open[group] and self._alias[group] == group
        ]
        return [
            tuple(members)
            for members in sorted(open_groups, key=lambda members: position[members[0]])
        ]

    def _join_apart(self) -> None:
        """Merge groups with no group between them, each with the first that it can join."""
        joined: list[int] = []
        for group in range(self._first, len(self._members)):
            if self._alias[group] != group or not self._is_open[group]:
                continue
            for position, other in enumerate(joined[:_MOST_TRIED]):
                if not self._is_separated(group, other):
                    joined[position] = self._merge(group, other)
                    break
            else:
                joined.append(group)

    def _begin_anew(self) -> None:
        """Forget the paths through all groups so far, which nobody joins any more."""
        self._first = len(self._members)
        self._needs = [0] * self._first
        self._users = [set() for _ in range(self._first)]
        self._needs_nbytes = 0

    def _place(self, index: int) -> None:
        group = self._new_group(index)
        producers = [
            producer
            for producer in self._producers(self._graph.node(index))
            if self._real(self._group_of[producer]) >= self._first
        ]
        for producer in producers:
            self._depend(group, self._real(self._group_of[producer]))
        if not self._is_open[group]:
            return
        for producer in producers:
            other = self._real(self._group_of[producer])
            if other != group and self._is_open[other] and not self._is_separated(group, other):
                group = self._merge(group, other)

    def _new_group(self, index: int) -> int:
        group = len(self._members)
        self._members.append([index])
        self._is_open.append(index in self._supported)
        self._needs.append(0)
        self._users.append(set())
        self._alias.append(group)
        self._group_of[index] = group
        return group

    def _real(self, group: int) -> int:
        while self._alias[group] != group:
            self._alias[group] = self._alias[self._alias[group]]
            group = self._alias[group]
        return group

    def _depend(self, group: int, other: int) -> None:
        self._users[other].add(group)
        self._add_needs(group, self._needs[other] | self._bit(other))

    def _bit(self, group: int) -> int:
        return 1 << (group - self._first)

    def _set_needs(self, group: int, needs: int) -> None:
        self._needs_nbytes += (needs.bit_length() - self._needs[group].bit_length()) // 8
        self._needs[group] = needs

    def _add_needs(self, group: int, needs: int) -> None:
        """Add to what ``group`` depends on, and so to what depends on it."""
        waiting = [group]
        while waiting:
            current = self._real(waiting.pop())
            if needs & ~self._needs[current]:
                self._set_needs(current, self._needs[current] | needs)
                waiting.extend(self._users[current])

    def _is_separated(self, group: int, other: int) -> bool:
        """Return True if a third group lies between two; merged, they would make a cycle."""
        return self._leads_through_third(other, group) or self._leads_through_third(group, other)

    def _leads_through_third(self, first: int, last: int) -> bool:
        users = {self._real(user) for user in self._users[first]} - {first, last}
        return any(self._needs[last] & self._bit(user) for user in users)

    def _merge(self, group: int, other: int) -> int:
        """Merge two groups; return the one that stays, which has more members."""
        if len(self._members[group]) > len(self._members[other]):
            group, other = other, group
        self._alias[group] = other
        self._members[other] += self._members[group]
        self._users[other] = {
            self._real(user) for user in self._users[other] | self._users[group]
        } - {other}
        outside = ~(self._bit(group) | self._bit(other))
        self._set_needs(other, (self._needs[other] | self._needs[group]) & outside)
        self._set_needs(group, 0)
        for user in self._users[other]:
            self._add_needs(user, self._needs[other] | self._bit(other))
        return other

    def _producers(self, node: Node) -> list[int]:
        values = dict.fromkeys((*node.inputs, *node.implicit_inputs))
        producers = (self._graph.producer_of(value) for value in values if value)
        return list(dict.fromkeys(producer.index for producer in producers if producer is not None))
