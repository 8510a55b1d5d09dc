"""Moves a bias before GELU into it: com.microsoft's BiasGelu, or FastGelu for the tanh form."""

from __future__ import annotations

from ortpkg.engine.transformers.patterns import fuse, has_kernel, may_fuse, same_dimension
from ortpkg.engine.transformers.rewriting import known_shape, sole_consumed_producer, tensor_type
from ortpkg.engine.transformers.transform_context import RewriteRule, TransformContext
from ortpkg.graph.graph import MICROSOFT_DOMAIN, ONNX_DOMAIN, Graph, Node


def _rewrite(graph: Graph, node: Node, context: TransformContext) -> bool:
    addition = sole_consumed_producer(graph, node.inputs[0], "Add")
    result = tensor_type(graph, node.outputs[0])
    if (
        addition is None
        or result is None
        or len(node.inputs) > 1
        or not may_fuse(graph, [addition, node], context)
    ):
        return False
    by_tanh = node.op_type == "FastGelu" or node.attribute("approximate", "none") == "tanh"
    op_type = "FastGelu" if by_tanh else "BiasGelu"
    if not has_kernel(graph, context, node, op_type, result.element_type):
        return False
    for slot in (0, 1):
        x, bias = (known_shape(graph, addition.inputs[index]) for index in (slot, 1 - slot))
        if x and bias is not None and len(bias) == 1 < len(x) and same_dimension(bias[0], x[-1]):
            return fuse(
                graph, [addition, node], op_type, (addition.inputs[slot], addition.inputs[1 - slot])
            )
    return False


BIAS_GELU_FUSION = RewriteRule(
    name="bias-gelu-fusion",
    op_types=frozenset({"Gelu", "FastGelu"}),
    rewrite=_rewrite,
    domains=frozenset({ONNX_DOMAIN, MICROSOFT_DOMAIN}),
)
