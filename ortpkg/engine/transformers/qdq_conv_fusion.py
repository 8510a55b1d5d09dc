"""A convolution between dequantize and quantize nodes becomes QLinearConv."""

from __future__ import annotations

import numpy as np

from ortpkg.engine.transformers.patterns import fuse, has_kernel, may_fuse
from ortpkg.engine.transformers.quantized_values import Quantized, dequantized, quantized_by
from ortpkg.engine.transformers.rewriting import add_constant, constant_array
from ortpkg.engine.transformers.transform_context import RewriteRule, TransformContext
from ortpkg.graph.graph import ONNX_DOMAIN, Graph, Node
from ortpkg.graph.types import ElementType

_BIAS = 2
_INT32 = frozenset({ElementType.INT32})
_LARGEST_BIAS_NBYTES = 1 << 22


def _rewrite(graph: Graph, node: Node, context: TransformContext) -> bool:
    x, weight = (dequantized(graph, value) for value in node.inputs[:2])
    made = quantized_by(graph, node.outputs[0])
    if (
        x is None
        or x.axis is not None
        or weight is None
        or weight.axis not in (None, 0)
        or made is None
    ):
        return False
    if not graph.is_constant(weight.value) or not may_fuse(graph, [node, made[0]], context):
        return False
    if not has_kernel(
        graph, context, node, "QLinearConv", x.element_type, domain=ONNX_DOMAIN, constraint="T1"
    ):
        return False
    bias = integer_bias(graph, (*node.inputs, "")[_BIAS], x, weight)
    if bias is None:
        return False
    inputs = [
        name
        for part in (x, weight)
        for name in (part.value, part.scale, part.zero_point_name(graph))
    ]
    inputs += [made[1].scale, made[1].zero_point_name(graph), *([bias] if bias else [])]
    return fuse(
        graph,
        [node, made[0]],
        "QLinearConv",
        inputs,
        domain=ONNX_DOMAIN,
        attributes=node.attributes,
    )


def integer_bias(graph: Graph, bias: str, x: Quantized, weight: Quantized) -> str | None:
    """The bias in units of the product of both scales.

    "" where there is none, None where it is of another kind.

    A bias that is not quantized is, once: its rounding is far below that of the result.
    """
    if not bias:
        return ""
    unit = np.asarray(
        x.parameters(graph)[0].reshape(()) * weight.parameters(graph)[0], dtype=np.float32
    )
    known = dequantized(graph, bias, element_types=_INT32)
    if known is None:
        array = constant_array(graph, bias, largest_nbytes=_LARGEST_BIAS_NBYTES)
        return (
            None
            if array is None or not _fits(unit, array) or not unit.all()
            else _quantized_bias(graph, bias, np.asarray(array / unit))
        )
    scale, zero_point = known.parameters(graph)
    if zero_point.any() or not (_fits(scale, unit) or _fits(unit, scale)):
        return None
    return known.value if np.allclose(scale, unit) else None


def _fits(parameter: np.ndarray, array: np.ndarray) -> bool:
    """Whether it is one for all, or one for each element of the vector ``array``."""
    return parameter.size == 1 or (array.ndim == 1 and parameter.shape == array.shape)


def _quantized_bias(graph: Graph, name: str, steps: np.ndarray) -> str | None:
    if not np.abs(steps).max(initial=0) <= np.iinfo(np.int32).max:  # NaN neither
        return None
    return add_constant(graph, f"{name}_quantized", np.rint(steps).astype(np.int32))


QDQ_CONV_FUSION = RewriteRule(
    name="qdq-conv-fusion", op_types=frozenset({"Conv"}), rewrite=_rewrite
)
