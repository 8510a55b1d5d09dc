"""Operators between dequantize and quantize nodes become com.microsoft's QLinear operators.

Elementwise operators, global pooling, softmax and concatenation.
"""

from __future__ import annotations

from collections.abc import Callable

from ortpkg.engine.transformers.patterns import fuse, has_kernel, may_fuse
from ortpkg.engine.transformers.quantized_values import Quantized, dequantized, quantized_by
from ortpkg.engine.transformers.transform_context import RewriteRule, TransformContext
from ortpkg.graph.graph import Attribute, Graph, Node

_FIRST_BROADCASTING_OPSET = 7
_FIRST_SOFTMAX_WITH_OWN_AXIS = 13

#: The fused node's inputs from the names of (value, scale, zero point) of each operand, then of the
#: result's two.
_Layout = Callable[[list[tuple[str, str, str]], tuple[str, str]], list[str]]


def _operands_first(operands: list[tuple[str, str, str]], result: tuple[str, str]) -> list[str]:
    return [*(name for operand in operands for name in operand), *result]


def _result_first(operands: list[tuple[str, str, str]], result: tuple[str, str]) -> list[str]:
    return [*result, *(name for operand in operands for name in operand)]


_FUSED: dict[str, tuple[str, _Layout]] = {
    "Add": ("QLinearAdd", _operands_first),
    "Mul": ("QLinearMul", _operands_first),
    "Sigmoid": ("QLinearSigmoid", _operands_first),
    "LeakyRelu": ("QLinearLeakyRelu", _operands_first),
    "Softmax": ("QLinearSoftmax", _operands_first),
    "GlobalAveragePool": ("QLinearGlobalAveragePool", _operands_first),
    "Concat": ("QLinearConcat", _result_first),
}


def _rewrite(graph: Graph, node: Node, context: TransformContext) -> bool:
    if node.op_type in ("Add", "Mul") and node.since_version < _FIRST_BROADCASTING_OPSET:
        return False
    found = [dequantized(graph, value) for value in node.inputs]
    operands = [operand for operand in found if operand is not None and operand.axis is None]
    made = quantized_by(graph, node.outputs[0])
    if len(operands) < len(found) or made is None or not may_fuse(graph, [node, made[0]], context):
        return False
    if any(operand.element_type is not made[1].element_type for operand in operands):
        return False
    op_type, layout = _FUSED[node.op_type]
    if not has_kernel(graph, context, node, op_type, made[1].element_type):
        return False
    result = (made[1].scale, made[1].zero_point_name(graph))
    inputs = layout([_names(graph, operand) for operand in operands], result)
    return fuse(graph, [node, made[0]], op_type, inputs, attributes=_attributes(node))


def _names(graph: Graph, operand: Quantized) -> tuple[str, str, str]:
    return operand.value, operand.scale, operand.zero_point_name(graph)


def _attributes(node: Node) -> dict[str, Attribute]:
    if node.op_type != "Softmax":
        return dict(node.attributes)
    # Its meaning changed with version 13, and the fused node has to be told which one it is.
    axis = node.attribute("axis", -1 if node.since_version >= _FIRST_SOFTMAX_WITH_OWN_AXIS else 1)
    return {"axis": Attribute("INT", axis), "opset": Attribute("INT", node.since_version)}


QDQ_ELEMENTWISE_FUSION = RewriteRule(
    name="qdq-elementwise-fusion", op_types=frozenset(_FUSED), rewrite=_rewrite
)
