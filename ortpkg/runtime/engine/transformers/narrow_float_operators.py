"""Tables of operators that only move float16 and bfloat16, or depend on their type.

All other operators compute: their kernels widen narrow inputs and round the results, so they may
as well be given float32.
"""

from __future__ import annotations

from ortpkg.graph.graph import MICROSOFT_DOMAIN, ONNX_DOMAIN, Node
from ortpkg.graph.types import ElementType

NARROW_FLOATS = frozenset({ElementType.FLOAT16})

#: Operators that pass values of any type on unchanged.
_MOVERS = frozenset({
    "CenterCropPad", "Compress", "Concat", "DepthToSpace", "Expand", "Flatten", "Gather",
    "GatherElements", "GatherND", "Identity", "NonZero", "OneHot", "Pad", "Reshape",
    "ReverseSequence", "Scatter", "ScatterElements", "ScatterND", "Shape", "Size", "Slice",
    "SpaceToDepth", "Split", "Squeeze", "TensorScatter", "Tile", "Transpose", "Trilu", "Unsqueeze",
    "Where",
})  # fmt: skip

#: Operators whose meaning depends on the narrow type: conversions, scales of quantized values,
#: types of random numbers.
_ABOUT_TYPES = frozenset({
    "Bernoulli", "BitCast", "Cast", "CastLike", "Constant", "ConstantOfShape", "DequantizeLinear",
    "DynamicQuantizeLinear", "EyeLike", "Multinomial", "QuantizeLinear", "RandomNormal",
    "RandomNormalLike", "RandomUniform", "RandomUniformLike",
})  # fmt: skip

#: Attributes that name a type: with one of them, the outputs' type is not that of the inputs.
_TYPE_ATTRIBUTES = frozenset(
    {"to", "dtype", "value", "output_dtype", "output_datatype", "saturate"}
)

#: Operators that pass on a whole cache of earlier keys and values, and compute with a part of it.
_WITH_CACHE = frozenset({"GroupQueryAttention", "SparseAttention"})


def may_run_in_float32(node: Node) -> bool:
    """Return True if ``node`` does the same in float32, apart from rounding."""
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
    """Return True if ``node`` computes nothing with floats: float32 alone gains nothing."""
    return (
        node.domain == ONNX_DOMAIN
        and node.op_type in _MOVERS
        and node.attribute("reduction", "none") == "none"
    )
