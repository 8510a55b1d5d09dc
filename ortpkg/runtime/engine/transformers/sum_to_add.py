"""Replace ``Sum`` of two by ``Add``, which other rules know, and remove ``Sum`` of one."""

from __future__ import annotations

from ortpkg.graph.graph import Graph, Node
from ortpkg.runtime.engine.transformers.rewriting import pass_through, replace_nodes
from ortpkg.runtime.engine.transformers.transform_context import RewriteRule, TransformContext

_FIRST_VERSION_WITH_BROADCASTING = 8
_TWO = 2


def _rewrite(graph: Graph, node: Node, _context: TransformContext) -> bool:
    if len(node.inputs) == 1:
        return pass_through(graph, node)
    if len(node.inputs) != _TWO or node.since_version < _FIRST_VERSION_WITH_BROADCASTING:
        return False
    replace_nodes(graph, [node], "Add", node.inputs)
    return True


SUM_TO_ADD = RewriteRule(name="sum-to-add", op_types=frozenset({"Sum"}), rewrite=_rewrite)
