"""What rules for quantized models ask: what a value is dequantized from, what quantizes it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ortpkg.engine.transformers.patterns import made_by
from ortpkg.engine.transformers.rewriting import (
    Array,
    add_constant,
    constant_array,
    known_shape,
    sole_consumer,
)
from ortpkg.graph.graph import ONNX_DOMAIN, Graph, Node
from ortpkg.graph.types import ElementType, TensorType

BYTE_TYPES = frozenset({ElementType.UINT8, ElementType.INT8})
_LARGEST_PARAMETER_NBYTES = 1 << 20
#: Differences of bytes times a larger scale may be infinite.
_MOST_SCALE = 2.0**119
_AXIS = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantized:
    """A quantized value with constant parameters.

    Attributes:
        value, scale, zero_point: names; the zero point "" where it is left out (then it is zero).
        element_type: of the quantized value.
        axis: along which the parameters differ; None: one for the whole tensor.
    """

    value: str
    scale: str
    zero_point: str
    element_type: ElementType
    axis: int | None

    def parameters(self, graph: Graph) -> tuple[Array, Array]:
        """Scale and zero point; they are known to be constant."""
        scale = constant_array(graph, self.scale, largest_nbytes=_LARGEST_PARAMETER_NBYTES)
        assert scale is not None
        zero_point = constant_array(
            graph, self.zero_point, largest_nbytes=_LARGEST_PARAMETER_NBYTES
        )
        return scale, np.zeros(scale.shape, np.int32) if zero_point is None else zero_point

    def zero_point_name(self, graph: Graph) -> str:
        """The zero point's name; a new constant where the model leaves it out."""
        if self.zero_point:
            return self.zero_point
        dtype = np.uint8 if self.element_type is ElementType.UINT8 else np.int8
        return add_constant(
            graph, f"{self.scale}_zero_point", np.zeros(self.parameters(graph)[0].shape, dtype)
        )

    def has_parameters_of(self, graph: Graph, other: Quantized) -> bool:
        """Whether both mean the same by the same number."""
        return self.element_type is other.element_type and all(
            mine.shape == its.shape and bool((mine == its).all())
            for mine, its in zip(self.parameters(graph), other.parameters(graph), strict=True)
        )


def dequantized(
    graph: Graph, value: str, *, element_types: frozenset[ElementType] = BYTE_TYPES
) -> Quantized | None:
    """Return the integers and parameters that a DequantizeLinear makes ``value`` from.

    None if another operator makes it, the parameters are no constants, or the scales are not
    positive float32 numbers.
    """
    node = made_by(graph, value, "DequantizeLinear")
    return None if node is None else _quantized(graph, node, node.inputs[0], element_types)


def quantized_by(graph: Graph, value: str) -> tuple[Node, Quantized] | None:
    """The only consumer of ``value``, which quantizes it to bytes with one scale; its output."""
    node = sole_consumer(graph, value)
    if (
        node is None
        or node.domain != ONNX_DOMAIN
        or node.op_type != "QuantizeLinear"
        or node.inputs[0] != value
    ):
        return None
    made = _quantized(graph, node, node.outputs[0], BYTE_TYPES)
    return None if made is None or made.axis is not None else (node, made)


def computes_in_float32(node: Node) -> bool:
    """Return True if a quantize or dequantize node with float32 scales stays in float32.

    Since opset 23 it may state another type to divide in, or to dequantize to.
    """
    stated = "output_dtype" if node.op_type == "DequantizeLinear" else "precision"
    return node.attribute(stated, 0) in (ElementType.UNDEFINED, ElementType.FLOAT)


def _quantized(
    graph: Graph, node: Node, value: str, element_types: frozenset[ElementType]
) -> Quantized | None:
    if not computes_in_float32(node):
        return None
    scale, zero_point = (*node.inputs[1:], "")[:2]
    known, scale_type, shape = (
        graph.type_of(value),
        graph.constant(scale),
        known_shape(graph, value),
    )
    if (
        not isinstance(known, TensorType)
        or known.element_type not in element_types
        or shape is None
    ):
        return None
    if (
        scale_type is None
        or scale_type.element_type is not ElementType.FLOAT
        or node.attribute("block_size", 0)
    ):
        return None
    numbers = constant_array(graph, scale, largest_nbytes=_LARGEST_PARAMETER_NBYTES)
    if numbers is None or not ((numbers > 0) & (numbers <= _MOST_SCALE)).all():
        return None
    point = graph.constant(zero_point) if zero_point else None
    if (zero_point and point is None) or (point is not None and point.shape != scale_type.shape):
        return None
    if scale_type.shape in ((), (1,)):
        axis = None
    elif len(scale_type.shape) == 1:
        axis = node.attribute("axis", _AXIS) % max(len(shape), 1)
    else:
        return None
    return Quantized(
        value=value, scale=scale, zero_point=zero_point, element_type=known.element_type, axis=axis
    )
