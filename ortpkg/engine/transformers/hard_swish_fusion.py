"""x · HardSigmoid(x) of slope 1/6, and x · clip(x + 3, 0, 6) / 6, become HardSwish."""

from __future__ import annotations

import math

from ortpkg.engine.transformers.activation_parameters import activation_parameters
from ortpkg.engine.transformers.patterns import fuse, has_kernel, may_fuse
from ortpkg.engine.transformers.polynomials import Polynomial, is_close, match_gated
from ortpkg.engine.transformers.transform_context import RewriteRule, TransformContext
from ortpkg.graph.graph import ONNX_DOMAIN, Graph, Node

_FIRST_OPSET = 14
#: Gate → its parameters, its argument, what it is multiplied to.
_FORMS: dict[str, tuple[tuple[float, float], Polynomial, Polynomial]] = {
    "HardSigmoid": ((1 / 6, 0.5), {(1, 0): 1.0}, {(1, 1): 1.0}),
    "Clip": ((0.0, 6.0), {(1, 0): 1.0, (0, 0): 3.0}, {(1, 1): 1 / 6}),
}


def _rewrite(graph: Graph, node: Node, context: TransformContext) -> bool:
    parameters, argument, result = _FORMS[node.op_type]
    found_parameters = activation_parameters(graph, node)
    if graph.opset_imports.get(ONNX_DOMAIN, 0) < _FIRST_OPSET or found_parameters is None:
        return False
    if not all(
        math.isclose(*pair, rel_tol=1e-4) for pair in zip(found_parameters, parameters, strict=True)
    ):
        return False
    found = match_gated(graph, node, result)
    if found is None or not is_close(found.argument, argument, found.element_type):
        return False
    if not may_fuse(graph, found.nodes, context):
        return False
    if not has_kernel(graph, context, node, "HardSwish", found.element_type, domain=ONNX_DOMAIN):
        return False
    return fuse(graph, found.nodes, "HardSwish", [found.x], domain=ONNX_DOMAIN)


HARD_SWISH_FUSION = RewriteRule(
    name="hard-swish-fusion", op_types=frozenset(_FORMS), rewrite=_rewrite
)
