"""Applies rewrite rules to every node of a graph, in topological order, once."""

from __future__ import annotations

from collections.abc import Sequence

from ortpkg.engine.transformers.transform_context import RewriteRule, TransformContext
from ortpkg.graph.graph import ONNX_DOMAIN, Graph
from ortpkg.graph.topology import topological_order


class RuleDriver:
    """A graph transformer made of rewrite rules.

    Each node gets the rules for its type in their order, until one removes it. Nodes that a rule adds wait for the
    next round.
    """

    def __init__(self, name: str, rules: Sequence[RewriteRule]) -> None:
        self.name = name
        self.rules = tuple(rules)
        self._by_op_type: dict[str, list[RewriteRule]] = {}
        for rule in rules:
            for op_type in sorted(rule.op_types):
                self._by_op_type.setdefault(op_type, []).append(rule)

    def apply(self, graph: Graph, context: TransformContext) -> int:
        changes = 0
        for index in topological_order(graph):
            if not graph.has_node(index):
                continue
            node = graph.node(index)
            if node.domain != ONNX_DOMAIN or not context.may_change(node):
                continue
            for rule in self._by_op_type.get(node.op_type, ()):
                if rule.rewrite(graph, node, context):
                    changes += 1
                    if not graph.has_node(index):
                        break
        return changes
