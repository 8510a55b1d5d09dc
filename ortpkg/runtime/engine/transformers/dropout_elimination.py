"""Remove ``Dropout`` nodes that do nothing: not in training mode, and with an unused mask."""

from __future__ import annotations

from ortpkg.graph.graph import Graph, Node
from ortpkg.runtime.engine.transformers.rewriting import (
    constant_array,
    has_used_output,
    pass_through,
)
from ortpkg.runtime.engine.transformers.transform_context import RewriteRule, TransformContext

_FIRST_VERSION_WITHOUT_IS_TEST = 7
_FIRST_VERSION_WITH_TRAINING_MODE = 12
_TRAINING_MODE = 2


def _rewrite(graph: Graph, node: Node, _context: TransformContext) -> bool:
    if has_used_output(graph, node.outputs[1:]) or _may_train(graph, node):
        return False
    return pass_through(graph, node)


def _may_train(graph: Graph, node: Node) -> bool:
    if node.since_version < _FIRST_VERSION_WITHOUT_IS_TEST:
        return not node.attribute("is_test", 0)
    if node.since_version < _FIRST_VERSION_WITH_TRAINING_MODE:
        return False
    if len(node.inputs) <= _TRAINING_MODE or not node.inputs[_TRAINING_MODE]:
        return False
    mode = constant_array(graph, node.inputs[_TRAINING_MODE], largest_nbytes=64)
    return mode is None or bool(mode.any())


DROPOUT_ELIMINATION = RewriteRule(
    name="dropout-elimination", op_types=frozenset({"Dropout"}), rewrite=_rewrite
)
