"""Products of dequantized matrices become QLinearMatMul, QGemm or MatMulIntegerToFloat."""

from __future__ import annotations

from ortpkg.engine.transformers.patterns import fuse, has_kernel, may_fuse
from ortpkg.engine.transformers.qdq_conv_fusion import integer_bias
from ortpkg.engine.transformers.quantized_values import Quantized, dequantized, quantized_by
from ortpkg.engine.transformers.rewriting import known_shape
from ortpkg.engine.transformers.transform_context import RewriteRule, TransformContext
from ortpkg.graph.graph import MICROSOFT_DOMAIN, ONNX_DOMAIN, Graph, Node

_MATRIX_RANK = 2
_BIAS = 2


def _rewrite(graph: Graph, node: Node, context: TransformContext) -> bool:
    a, b = (dequantized(graph, value) for value in node.inputs[:2])
    if a is None or a.axis is not None or b is None:
        return False
    return (_fuse_matmul if node.op_type == "MatMul" else _fuse_gemm)(graph, node, a, b, context)


def _triple(graph: Graph, part: Quantized) -> tuple[str, str, str]:
    return part.value, part.scale, part.zero_point_name(graph)


def _fuse_matmul(
    graph: Graph, node: Node, a: Quantized, b: Quantized, context: TransformContext
) -> bool:
    shape = known_shape(graph, b.value)
    if (
        shape is None
        or len(shape) < _MATRIX_RANK
        or (b.axis is not None and (b.axis, len(shape)) != (1, 2))
    ):
        return False
    made = quantized_by(graph, node.outputs[0])
    if made is not None and may_fuse(graph, [node, made[0]], context):
        if has_kernel(
            graph,
            context,
            node,
            "QLinearMatMul",
            a.element_type,
            domain=ONNX_DOMAIN,
            constraint="T1",
        ):
            inputs = [
                *_triple(graph, a),
                *_triple(graph, b),
                made[1].scale,
                made[1].zero_point_name(graph),
            ]
            return fuse(graph, [node, made[0]], "QLinearMatMul", inputs, domain=ONNX_DOMAIN)
        return False
    if not has_kernel(
        graph, context, node, "MatMulIntegerToFloat", a.element_type, constraint="T1"
    ):
        return False
    (x, x_scale, x_zero), (w, w_scale, w_zero) = _triple(graph, a), _triple(graph, b)
    return fuse(graph, [node], "MatMulIntegerToFloat", [x, w, x_scale, w_scale, x_zero, w_zero])


def _fuse_gemm(
    graph: Graph, node: Node, a: Quantized, b: Quantized, context: TransformContext
) -> bool:
    """With a quantized result or without; alpha and beta are 1, as quantizers leave them."""
    trans_b = node.attribute("transB", 0)
    if node.attribute("alpha", 1.0) != 1 or node.attribute("beta", 1.0) != 1:
        return False
    if b.axis is not None and b.axis != (0 if trans_b else 1):
        return False
    bias = (*node.inputs, "")[_BIAS]
    shape, columns = known_shape(graph, bias) if bias else (), known_shape(graph, node.outputs[0])
    if bias and (shape is None or columns is None or shape != columns[1:]):
        return False
    made = quantized_by(graph, node.outputs[0])
    nodes = [node] if made is None else [node, made[0]]
    if not may_fuse(graph, nodes, context):
        return False
    if not has_kernel(graph, context, node, "QGemm", a.element_type, constraint="TA"):
        return False
    integers = integer_bias(graph, bias, a, b)
    if integers is None:
        return False
    inputs = [*_triple(graph, a), *_triple(graph, b)]
    if integers or made is not None:
        inputs.append(integers)
    if made is not None:
        inputs += [made[1].scale, made[1].zero_point_name(graph)]
    attributes = {
        name: node.attributes[name] for name in ("transA", "transB") if name in node.attributes
    }
    return fuse(graph, nodes, "QGemm", inputs, domain=MICROSOFT_DOMAIN, attributes=attributes)


QDQ_MATMUL_FUSION = RewriteRule(
    name="qdq-matmul-fusion", op_types=frozenset({"MatMul", "Gemm"}), rewrite=_rewrite
)
