"""A constant factor before or behind a product becomes alpha of com.microsoft's FusedMatMul."""

from __future__ import annotations

import math

from ortpkg.engine.transformers.patterns import (
    fuse,
    has_kernel,
    may_fuse,
    number,
    same_shape,
    scalar,
    scaled,
)
from ortpkg.engine.transformers.rewriting import known_shape, sole_consumer, tensor_type
from ortpkg.engine.transformers.transform_context import RewriteRule, TransformContext
from ortpkg.graph.graph import ONNX_DOMAIN, Graph, Node
from ortpkg.graph.types import ElementType

_WIDE = frozenset({ElementType.FLOAT, ElementType.DOUBLE})


def _rewrite(graph: Graph, node: Node, context: TransformContext) -> bool:
    known = tensor_type(graph, node.outputs[0])
    # In float16, rounding once instead of at every factor gives other numbers than the model's own.
    if (
        known is None
        or known.element_type not in _WIDE
        or not has_kernel(graph, context, node, "FusedMatMul", known.element_type)
    ):
        return False
    factor, before, inputs = 1.0, list[Node](), []
    for value in node.inputs:
        source, own, between = scaled(graph, value)
        # A value that others take scaled too has to be scaled anyway.
        if between and all(sole_consumer(graph, inner.outputs[0]) is not None for inner in between):
            factor *= own
            before += reversed(between)
            inputs.append(source)
        else:
            inputs.append(value)
    behind = _scaling_behind(graph, node)
    if behind is not None:
        factor *= behind[1]
    nodes = [*before, node, *([] if behind is None else [behind[0]])]
    if len(nodes) == 1 or not math.isfinite(factor) or not may_fuse(graph, nodes, context):
        return False
    return fuse(graph, nodes, "FusedMatMul", inputs, attributes={"alpha": number(factor)})


def _scaling_behind(graph: Graph, node: Node) -> tuple[Node, float] | None:
    """The only node that takes the product and multiplies it with a constant; and the constant."""
    consumer = sole_consumer(graph, node.outputs[0])
    if consumer is None or consumer.domain != ONNX_DOMAIN or consumer.op_type not in ("Mul", "Div"):
        return None
    if not same_shape(known_shape(graph, consumer.outputs[0]), known_shape(graph, node.outputs[0])):
        return None
    constant = next(
        (
            scalar(graph, value, most_dimensions=1)
            for value in consumer.inputs
            if value != node.outputs[0]
        ),
        None,
    )
    is_reciprocal = consumer.op_type == "Div"
    if constant is None or (
        is_reciprocal and (consumer.inputs[0] != node.outputs[0] or constant == 0)
    ):
        return None
    return consumer, 1 / constant if is_reciprocal else constant


MATMUL_SCALE_FUSION = RewriteRule(
    name="matmul-scale-fusion", op_types=frozenset({"MatMul"}), rewrite=_rewrite
)
