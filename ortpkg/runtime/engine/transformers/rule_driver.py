"""Apply rewrite rules to every node of a graph once, in topological order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from ortpkg.graph.graph import Graph
from ortpkg.graph.load_control import poll_load
from ortpkg.graph.topology import topological_order
from ortpkg.runtime.engine.transformers.transform_context import RewriteRule, TransformContext


class RuleDriver:
    """A graph transformer made of rewrite rules.

    Each node gets the rules for its type in their order, until one removes it. Nodes that a rule
    adds wait for the next round.
    """

    def __init__(self, name: str, rules: Sequence[RewriteRule]) -> None:
        self.name = name
        self.rules = tuple(rules)
        self._rules_of: dict[tuple[str, str], list[RewriteRule]] = {}
        for rule in rules:
            for key in product(sorted(rule.domains), sorted(rule.op_types)):
                self._rules_of.setdefault(key, []).append(rule)

    def apply(self, graph: Graph, context: TransformContext) -> int:
        """Run one round and return the number of changes that the rules made."""
        changes = 0
        for index in topological_order(graph):
            if not graph.has_node(index):
                continue
            poll_load()
            node = graph.node(index)
            rules = self._rules_of.get((node.domain, node.op_type))
            if rules is None or not context.may_change(node):
                continue
            for rule in rules:
                if len(node.inputs) >= rule.fewest_inputs and rule.rewrite(graph, node, context):
                    changes += 1
                    if not graph.has_node(index):
                        break
        return changes
