"""Quantize and dequantize nodes that change nothing go.

* ``QuantizeLinear`` of what was dequantized with the same parameters.
* Both, round an operator that moves or picks elements: it does that to quantized ones just as well.
* ``Relu`` and ``Clip`` before ``QuantizeLinear`` whose range ends where theirs does: it saturates
  by itself.
"""

from __future__ import annotations

import numpy as np

from ortpkg.engine.transformers.activation_parameters import activation_parameters
from ortpkg.engine.transformers.patterns import has_kernel, may_fuse
from ortpkg.engine.transformers.quantized_values import (
    Quantized,
    computes_in_float32,
    dequantized,
    quantized_by,
)
from ortpkg.engine.transformers.rewriting import bypass_node, replace_nodes, sole_consumed_producer
from ortpkg.engine.transformers.transform_context import RewriteRule, TransformContext
from ortpkg.graph.graph import ONNX_DOMAIN, Graph, Node
from ortpkg.graph.types import numpy_dtype

#: Operators that take bytes, and the first version that does.
_MOVING = {
    "MaxPool": 12, "Reshape": 5, "Transpose": 1, "Flatten": 9, "Squeeze": 1, "Unsqueeze": 1,
    "Slice": 1, "Gather": 1, "Expand": 8, "DepthToSpace": 1, "SpaceToDepth": 1, "Tile": 6,
}  # fmt: skip


def _eliminate_pair(graph: Graph, node: Node, context: TransformContext) -> bool:
    before = dequantized(graph, node.inputs[0])
    if before is None or before.axis is not None or not context.may_change(node):
        return False
    made = _made(graph, node, before)
    if (
        made is None
        or not before.has_parameters_of(graph, made)
        or graph.is_output(node.outputs[0])
    ):
        return False
    graph.remove_node(node)
    graph.replace_all_uses(node.outputs[0], before.value)
    return True


def _made(graph: Graph, node: Node, before: Quantized) -> Quantized | None:
    scale, zero_point = (*node.inputs[1:], "")[:2]
    constants = [graph.constant(name) for name in (scale, zero_point) if name]
    known = graph.type_of(node.outputs[0])
    if (
        not computes_in_float32(node)
        or any(constant is None for constant in constants)
        or getattr(known, "element_type", None) != before.element_type
    ):
        return None
    return Quantized(
        value=node.outputs[0],
        scale=scale,
        zero_point=zero_point,
        element_type=before.element_type,
        axis=None,
    )


def _move(graph: Graph, node: Node, context: TransformContext) -> bool:
    if (
        node.since_version < _MOVING[node.op_type]
        or len([name for name in node.outputs if name]) > 1
    ):
        return False
    before, made = dequantized(graph, node.inputs[0]), quantized_by(graph, node.outputs[0])
    if (
        before is None
        or made is None
        or before.axis is not None
        or not before.has_parameters_of(graph, made[1])
    ):
        return False
    if not may_fuse(graph, [node, made[0]], context):
        return False
    if not has_kernel(graph, context, node, node.op_type, before.element_type, domain=ONNX_DOMAIN):
        return False
    inputs = (before.value, *node.inputs[1:])
    replace_nodes(graph, [node, made[0]], node.op_type, inputs, attributes=node.attributes)
    return True


def _eliminate_activation(graph: Graph, node: Node, context: TransformContext) -> bool:
    activation = sole_consumed_producer(graph, node.inputs[0], "Relu", "Clip")
    made = None if activation is None else quantized_by(graph, activation.outputs[0])
    if activation is None or made is None or not may_fuse(graph, [activation, node], context):
        return False
    bounds = (
        (0.0, np.inf) if activation.op_type == "Relu" else activation_parameters(graph, activation)
    )
    if bounds is None:
        return False
    scale, zero_point = (float(array.reshape(-1)[0]) for array in made[1].parameters(graph))
    limits = np.iinfo(numpy_dtype(made[1].element_type))
    # Whatever lies beyond a bound becomes the same number as the bound itself.
    lowest, highest = (
        np.rint(np.float32(bound) / np.float32(scale)) + zero_point for bound in bounds
    )
    # A bound that is NaN lies nowhere.
    return bool(lowest <= limits.min and highest >= limits.max) and bypass_node(graph, activation)


QDQ_PAIR_ELIMINATION = RewriteRule(
    name="qdq-pair-elimination", op_types=frozenset({"QuantizeLinear"}), rewrite=_eliminate_pair
)
QDQ_MOVE = RewriteRule(name="qdq-move", op_types=frozenset(_MOVING), rewrite=_move)
QDQ_ACTIVATION_ELIMINATION = RewriteRule(
    name="qdq-activation-elimination",
    op_types=frozenset({"QuantizeLinear"}),
    rewrite=_eliminate_activation,
)
