"""GELU written out, x · (1 + erf(x / √2)) / 2 or its tanh form, becomes one node.

ai.onnx has Gelu since version 20; before it the node is com.microsoft's Gelu, for the tanh form
FastGelu (onnxruntime's GeluFusion and FastGeluFusion).
"""

from __future__ import annotations

import math

from ortpkg.engine.transformers.patterns import fuse, has_kernel, may_fuse
from ortpkg.engine.transformers.polynomials import Polynomial, is_close, match_gated
from ortpkg.engine.transformers.transform_context import RewriteRule, TransformContext
from ortpkg.graph.graph import MICROSOFT_DOMAIN, ONNX_DOMAIN, Attribute, Graph, Node

_FIRST_OPSET_WITH_GELU = 20
_RESULT: Polynomial = {(1, 0): 0.5, (1, 1): 0.5}
_SCALE = math.sqrt(2 / math.pi)
_ARGUMENTS: dict[str, Polynomial] = {
    "Erf": {(1, 0): math.sqrt(0.5)},
    "Tanh": {(1, 0): _SCALE, (3, 0): _SCALE * 0.044715},
}


def _rewrite(graph: Graph, node: Node, context: TransformContext) -> bool:
    found = match_gated(graph, node, _RESULT)
    if found is None or not is_close(found.argument, _ARGUMENTS[node.op_type], found.element_type):
        return False
    by_tanh = node.op_type == "Tanh"
    if graph.opset_imports.get(ONNX_DOMAIN, 0) >= _FIRST_OPSET_WITH_GELU:
        op_type, domain = "Gelu", ONNX_DOMAIN
        attributes = {"approximate": Attribute("STRING", b"tanh")} if by_tanh else {}
    else:
        op_type, domain, attributes = "FastGelu" if by_tanh else "Gelu", MICROSOFT_DOMAIN, {}
    if not may_fuse(graph, found.nodes, context):
        return False
    if not has_kernel(graph, context, node, op_type, found.element_type, domain=domain):
        return False
    return fuse(graph, found.nodes, op_type, [found.x], domain=domain, attributes=attributes)


GELU_FUSION = RewriteRule(name="gelu-fusion", op_types=frozenset(_ARGUMENTS), rewrite=_rewrite)
