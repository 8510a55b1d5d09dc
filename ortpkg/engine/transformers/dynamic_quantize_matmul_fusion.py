"""Dynamically quantized products (MatMulInteger, Cast, Mul, Add of a bias) become one node.

It is com.microsoft's MatMulIntegerToFloat, and with the DynamicQuantizeLinear before it, where
nobody else takes what that makes, DynamicQuantizeMatMul (onnxruntime's
DynamicQuantizeMatMulFusion).
"""

from __future__ import annotations

from dataclasses import dataclass

from ortpkg.engine.transformers.norm_patterns import as_row, row_parameter
from ortpkg.engine.transformers.patterns import fuse, has_kernel, made_by, may_fuse
from ortpkg.engine.transformers.rewriting import (
    known_shape,
    sole_consumed_producer,
    sole_consumer,
    tensor_type,
)
from ortpkg.engine.transformers.transform_context import RewriteRule, TransformContext
from ortpkg.graph.graph import ONNX_DOMAIN, Graph, Node
from ortpkg.graph.types import ElementType

_A_ZERO, _B_ZERO = 2, 3
_SCALES = ((), (1,))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scales:
    """Both factors' scales, and the node that multiplies them if nobody else takes its product."""

    a: str
    b: str
    nodes: list[Node]


def _rewrite(graph: Graph, node: Node, context: TransformContext) -> bool:
    known = tensor_type(graph, node.outputs[0])
    if known is None or known.element_type is not ElementType.FLOAT:
        return False
    for slot in (0, 1):
        cast = sole_consumed_producer(graph, node.inputs[slot], "Cast")
        product = (
            None if cast is None else sole_consumed_producer(graph, cast.inputs[0], "MatMulInteger")
        )
        if cast is None or product is None:
            continue
        names = (*product.inputs, "", "")[:4]
        scales = _match_scales(graph, node.inputs[1 - slot], names)
        columns = known_shape(graph, names[1])
        if scales is None or columns is None or len(columns) != 2:
            continue
        if known_shape(graph, scales.b) not in (*_SCALES, columns[1:]):
            continue
        value = node.outputs[0]
        addition = row_parameter(graph, sole_consumer(graph, value), "Add", value, behind=value)
        nodes = [product, cast, *scales.nodes, node, *([] if addition is None else [addition[0]])]
        bias = "" if addition is None else addition[1]
        if _fuse(graph, nodes, names, scales, bias, context):
            return True
    return False


def _match_scales(graph: Graph, value: str, names: tuple[str, ...]) -> _Scales | None:
    """The factors of ``value``, one of which belongs to the quantized input."""
    multiplication = made_by(graph, value, "Mul")
    dynamic = graph.producer_of(names[0])
    if (
        multiplication is None
        or dynamic is None
        or dynamic.domain != ONNX_DOMAIN
        or dynamic.op_type != "DynamicQuantizeLinear"
    ):
        return None
    if names[_A_ZERO] != dynamic.outputs[2]:
        return None
    for slot in (0, 1):
        if multiplication.inputs[slot] == dynamic.outputs[1]:
            nodes = [multiplication] if sole_consumer(graph, value) is not None else []
            return _Scales(a=dynamic.outputs[1], b=multiplication.inputs[1 - slot], nodes=nodes)
    return None


def _fuse(
    graph: Graph,
    nodes: list[Node],
    names: tuple[str, ...],
    scales: _Scales,
    bias: str,
    context: TransformContext,
) -> bool:
    if not may_fuse(graph, nodes, context):
        return False
    a, b, a_zero, b_zero = names
    dynamic = graph.producer_of(a)
    b_type = tensor_type(graph, b)
    assert dynamic is not None
    if b_type is None:
        return False
    if (
        not {*dynamic.outputs} & {b, scales.b, b_zero, bias}
        and may_fuse(graph, [dynamic, *nodes], context)
        and has_kernel(
            graph, context, nodes[-1], "DynamicQuantizeMatMul", b_type.element_type, constraint="T2"
        )
    ):
        inputs = [dynamic.inputs[0], b, scales.b, b_zero, bias and as_row(graph, bias)]
        return fuse(graph, [dynamic, *nodes], "DynamicQuantizeMatMul", _trimmed(inputs))
    if not has_kernel(
        graph, context, nodes[-1], "MatMulIntegerToFloat", b_type.element_type, constraint="T2"
    ):
        return False
    inputs = [a, b, scales.a, scales.b, a_zero, b_zero, bias and as_row(graph, bias)]
    return fuse(graph, nodes, "MatMulIntegerToFloat", _trimmed(inputs))


def _trimmed(names: list[str]) -> list[str]:
    while not names[-1]:
        names.pop()
    return names


DYNAMIC_QUANTIZE_MATMUL_FUSION = RewriteRule(
    name="dynamic-quantize-matmul-fusion", op_types=frozenset({"Mul"}), rewrite=_rewrite
)
