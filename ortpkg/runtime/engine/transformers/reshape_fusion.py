"""Remove ``Reshape`` nodes that keep the shape, and the first of two in a row."""

from __future__ import annotations

from ortpkg.graph.graph import Graph, Node
from ortpkg.runtime.engine.transformers.rewriting import (
    constant_ints,
    pass_through,
    sole_consumed_producer,
    tensor_type,
)
from ortpkg.runtime.engine.transformers.transform_context import RewriteRule, TransformContext

_FIRST_VERSION_WITH_SHAPE_INPUT = 5


def _eliminate(graph: Graph, node: Node, _context: TransformContext) -> bool:
    before, after = tensor_type(graph, node.inputs[0]), tensor_type(graph, node.outputs[0])
    if before is None or after is None or not before.is_static or before.shape != after.shape:
        return False
    return pass_through(graph, node)


def _fuse(graph: Graph, node: Node, context: TransformContext) -> bool:
    """Bypass a ``Reshape`` before this one if the target is constant and has no zeros.

    Such a target needs only the elements; a zero would copy a dimension of the shape before it.
    """
    if node.since_version < _FIRST_VERSION_WITH_SHAPE_INPUT:
        return False
    target = constant_ints(graph, node.inputs[1])
    if target is None or 0 in target:
        return False
    first = sole_consumed_producer(
        graph, node.inputs[0], "Reshape", "Flatten", "Squeeze", "Unsqueeze"
    )
    if first is None or not context.may_change(first):
        return False
    graph.replace_input(node, 0, first.inputs[0])
    graph.remove_node(first)
    return True


RESHAPE_ELIMINATION = RewriteRule(
    name="reshape-elimination", op_types=frozenset({"Reshape"}), rewrite=_eliminate
)
RESHAPE_FUSION = RewriteRule(name="reshape-fusion", op_types=frozenset({"Reshape"}), rewrite=_fuse)
