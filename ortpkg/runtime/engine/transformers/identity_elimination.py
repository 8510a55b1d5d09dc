"""Remove ``Identity`` nodes, also those that pass a carried value through a loop's body."""

from __future__ import annotations

from ortpkg.graph.graph import Graph, Node
from ortpkg.runtime.engine.transformers.rewriting import bypass_node
from ortpkg.runtime.engine.transformers.transform_context import RewriteRule, TransformContext


def _rewrite(graph: Graph, node: Node, _context: TransformContext) -> bool:
    return bypass_node(graph, node)


IDENTITY_ELIMINATION = RewriteRule(
    name="identity-elimination", op_types=frozenset({"Identity"}), rewrite=_rewrite
)


def _hand_on(graph: Graph, node: Node, context: TransformContext) -> bool:
    """Make the input itself an output of the sub-graph, so that no iteration copies it.

    Our engine matches a sub-graph's inputs and outputs by position. Other runtimes want a node
    between them.
    """
    source, output = node.inputs[0], node.outputs[0]
    is_carried = graph.parent is not None and graph.is_input(source) and graph.is_output(output)
    if not is_carried or context.only_portable or graph.type_of(source) is None:
        return False
    graph.remove_node(node)
    graph.replace_all_uses(output, source)
    graph.set_outputs([source if name == output else name for name in graph.outputs])
    graph.types.pop(output, None)
    return True


CARRIED_IDENTITY_ELIMINATION = RewriteRule(
    name="carried-identity-elimination", op_types=frozenset({"Identity"}), rewrite=_hand_on
)
