"""Remove ``Cast`` nodes to the type that their input already has."""

from __future__ import annotations

from ortpkg.graph.graph import Graph, Node
from ortpkg.runtime.engine.transformers.rewriting import pass_through, tensor_type
from ortpkg.runtime.engine.transformers.transform_context import RewriteRule, TransformContext


def _rewrite(graph: Graph, node: Node, _context: TransformContext) -> bool:
    source = tensor_type(graph, node.inputs[0])
    if source is None or node.attribute("to") != int(source.element_type):
        return False
    return pass_through(graph, node)


CAST_ELIMINATION = RewriteRule(
    name="cast-elimination", op_types=frozenset({"Cast"}), rewrite=_rewrite
)
