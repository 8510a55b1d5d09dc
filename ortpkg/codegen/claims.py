"""Which nodes can be compiled: those that are lowered to operations that have a schedule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ortpkg.codegen.lowering.lowering_scope import LoweringScope, NotLoweredError
from ortpkg.codegen.lowering.operator_lowerings import lower_node
from ortpkg.codegen.schedules.schedule import reason_against
from ortpkg.graph.graph import Graph, Node
from ortpkg.shapes.knowledge import Knowledge


def reasons_against(
    graph: Graph, nodes: Iterable[Node], known: Mapping[str, Knowledge]
) -> Mapping[int, str]:
    """Why nodes are not compiled, by index; those that are left out can be.

    Args:
        graph: the nodes are of it.
        nodes: each after those whose outputs it takes.
        known: what inference found of the graph's values.
    """
    found = {}
    scope = LoweringScope(graph, known)
    for node in nodes:
        count = len(scope.operations)
        try:
            lower_node(scope, node)
        except NotLoweredError as error:
            found[node.index] = str(error)
            continue
        for operation in scope.operations[count:]:
            reason = reason_against(operation)
            if reason is not None:
                found[node.index] = reason
    return found
