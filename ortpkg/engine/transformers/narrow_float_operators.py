"""Which operators compute float16 and bfloat16 in float32, only move them, or ask their type.

Kernels of the first kind widen what they take and round what they make, so they may as well be
given float32. The tables name the others; what they do not name computes.
"""

from __future__ import annotations

from ortpkg.graph.graph import MICROSOFT_DOMAIN, ONNX_DOMAIN, Node
from ortpkg.graph.types import ElementType

NARROW_FLOATS = frozenset({ElementType.FLOAT16})

#: Values come out as they went in, of whatever type.
_MOVERS = frozenset({
    "CenterCropPad", "Compress", "Concat", "DepthToSpace", "Expand", "Flatten", "Gather",
    "GatherElements", "GatherND", "Identity", "NonZero", "OneHot", "Pad", "Reshape",
    "ReverseSequence", "Scatter", "ScatterElements", "ScatterND", "Shape", "Size", "Slice",
    "SpaceToDepth", "Split", "Squeeze", "TensorScatter", "Tile", "Transpose", "Trilu", "Unsqueeze",
    "Where",
})  # fmt: skip

#: The narrow type is what they are about: conversions, scales of quantized values, types of random
#: numbers.
_ABOUT_TYPES = frozenset({
    "Bernoulli", "BitCast", "Cast", "CastLike", "Constant", "ConstantOfShape", "DequantizeLinear",
    "DynamicQuantizeLinear", "EyeLike", "Multinomial", "QuantizeLinear", "RandomNormal",
    "RandomNormalLike", "RandomUniform", "RandomUniformLike",
})  # fmt: skip

#: Attributes that state a type of their own: with one, the outputs' type is not the inputs'.
_TYPE_ATTRIBUTES = frozenset(
    {"to", "dtype", "value", "output_dtype", "output_datatype", "saturate"}
)

#: They hand on a whole cache of earlier keys and values, of which they compute with a part.
_WITH_CACHE = frozenset({"GroupQueryAttention", "SparseAttention"})


def may_run_in_float32(node: Node) -> bool:
    """Whether ``node`` does the same with float32 for its narrow floats, but for rounding."""
    if node.domain not in (ONNX_DOMAIN, MICROSOFT_DOMAIN) or node.subgraphs:
        return False
    if (
        node.op_type in _ABOUT_TYPES
        or node.op_type.startswith("QLinear")
        or _TYPE_ATTRIBUTES & node.attributes.keys()
    ):
        return False
    return node.op_type not in _WITH_CACHE


def only_moves_values(node: Node) -> bool:
    """Whether ``node`` computes nothing with floats, so that float32 by itself gains nothing."""
    return (
        node.domain == ONNX_DOMAIN
        and node.op_type in _MOVERS
        and node.attribute("reduction", "none") == "none"
    )
