"""Removes ``Identity`` nodes."""

from __future__ import annotations

from ortpkg.engine.transformers.rewriting import bypass_node
from ortpkg.engine.transformers.transform_context import RewriteRule, TransformContext
from ortpkg.graph.graph import Graph, Node


def _rewrite(graph: Graph, node: Node, _context: TransformContext) -> bool:
    return bypass_node(graph, node)


IDENTITY_ELIMINATION = RewriteRule(
    name="identity-elimination", op_types=frozenset({"Identity"}), rewrite=_rewrite
)
