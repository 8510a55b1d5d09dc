"""Removes a reshape before elementwise operators and the one behind that undoes it."""

from __future__ import annotations

from ortpkg.engine.transformers.patterns import may_fuse, same_shape
from ortpkg.engine.transformers.rewriting import (
    known_shape,
    replace_nodes,
    sole_consumed_producer,
    sole_consumer,
)
from ortpkg.engine.transformers.transform_context import RewriteRule, TransformContext
from ortpkg.graph.graph import MICROSOFT_DOMAIN, ONNX_DOMAIN, Graph, Node

_ELEMENTWISE = frozenset({
    "Gelu", "FastGelu", "QuickGelu", "Relu", "LeakyRelu", "Sigmoid", "HardSigmoid", "HardSwish",
    "Tanh", "Erf", "Elu", "Swish", "Softplus", "Exp", "Neg", "Sqrt", "Abs",
})  # fmt: skip


def _rewrite(graph: Graph, node: Node, context: TransformContext) -> bool:
    before, behind = (
        sole_consumed_producer(graph, node.inputs[0], "Reshape"),
        sole_consumer(graph, node.outputs[0]),
    )
    if (
        before is None
        or behind is None
        or behind.domain != ONNX_DOMAIN
        or behind.op_type != "Reshape"
    ):
        return False
    if behind.inputs[0] != node.outputs[0] or len(node.inputs) > 1:
        return False
    if not same_shape(known_shape(graph, before.inputs[0]), known_shape(graph, behind.outputs[0])):
        return False
    nodes = [before, node, behind]
    if not may_fuse(graph, nodes, context):
        return False
    replace_nodes(
        graph,
        nodes,
        node.op_type,
        before.inputs[:1],
        domain=node.domain,
        attributes=node.attributes,
    )
    return True


RESHAPE_PAIR_ELIMINATION = RewriteRule(
    name="reshape-pair-elimination",
    op_types=_ELEMENTWISE,
    rewrite=_rewrite,
    domains=frozenset({ONNX_DOMAIN, MICROSOFT_DOMAIN}),
)
