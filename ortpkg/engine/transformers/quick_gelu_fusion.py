"""x · sigmoid(alpha · x) becomes Swish if the opset has it, else com.microsoft's QuickGelu.

With alpha = 1 it is SiLU, with 1.702 the approximate GELU of CLIP (onnxruntime's QuickGeluFusion).
"""

from __future__ import annotations

from ortpkg.engine.transformers.patterns import fuse, has_kernel, may_fuse, number
from ortpkg.engine.transformers.polynomials import match_gated
from ortpkg.engine.transformers.transform_context import RewriteRule, TransformContext
from ortpkg.graph.graph import MICROSOFT_DOMAIN, ONNX_DOMAIN, Graph, Node

_FIRST_OPSET_WITH_SWISH = 24


def _rewrite(graph: Graph, node: Node, context: TransformContext) -> bool:
    found = match_gated(graph, node, {(1, 1): 1.0})
    if (
        found is None
        or found.argument.keys() != {(1, 0)}
        or not may_fuse(graph, found.nodes, context)
    ):
        return False
    has_swish = graph.opset_imports.get(ONNX_DOMAIN, 0) >= _FIRST_OPSET_WITH_SWISH
    op_type, domain = ("Swish", ONNX_DOMAIN) if has_swish else ("QuickGelu", MICROSOFT_DOMAIN)
    if not has_kernel(graph, context, node, op_type, found.element_type, domain=domain):
        return False
    attributes = {"alpha": number(found.argument[1, 0])}
    return fuse(graph, found.nodes, op_type, [found.x], domain=domain, attributes=attributes)


QUICK_GELU_FUSION = RewriteRule(
    name="quick-gelu-fusion", op_types=frozenset({"Sigmoid"}), rewrite=_rewrite
)
