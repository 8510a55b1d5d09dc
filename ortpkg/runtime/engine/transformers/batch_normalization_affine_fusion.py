"""Move ``Mul`` and ``Add`` per channel behind a ``BatchNormalization`` into its scale and bias.

Networks that came from Caffe (DenseNet) have normalization and scale as two layers, and no
convolution before them that could take both.
"""

from __future__ import annotations

import numpy as np

from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.types import TensorType
from ortpkg.runtime.engine.transformers.conv_batch_normalization_fusion import is_inference
from ortpkg.runtime.engine.transformers.rewriting import (
    Array,
    add_constant,
    constant_array,
    is_finite,
    is_per_channel,
    keeps_digits,
    per_channel,
    replace_nodes,
    same_provider,
    sole_consumed_producer,
)
from ortpkg.runtime.engine.transformers.transform_context import RewriteRule, TransformContext

_FIRST_VERSION_WITH_BROADCASTING = 7
_SCALE, _BIAS = 1, 2


def _rewrite(graph: Graph, node: Node, context: TransformContext) -> bool:
    if node.since_version < _FIRST_VERSION_WITH_BROADCASTING:
        return False
    return any(_fuse(graph, node, slot, context) for slot in (0, 1))


def _fuse(graph: Graph, node: Node, slot: int, context: TransformContext) -> bool:
    normalization = sole_consumed_producer(graph, node.inputs[slot], "BatchNormalization")
    operand = constant_array(
        graph, node.inputs[1 - slot], largest_nbytes=context.largest_constant_nbytes
    )
    if normalization is None or operand is None or not same_provider(normalization, node):
        return False
    if not is_inference(graph, normalization):
        return False
    scale, bias = (
        constant_array(
            graph, normalization.inputs[index], largest_nbytes=context.largest_constant_nbytes
        )
        for index in (_SCALE, _BIAS)
    )
    rank = _rank(graph, normalization.inputs[0])
    if (
        scale is None
        or bias is None
        or rank is None
        or scale.shape != bias.shape
        or scale.ndim != 1
    ):
        return False
    channels = scale.shape[0]
    if operand.dtype != scale.dtype or not is_per_channel(operand.shape, rank, channels):
        return False
    wide = per_channel(operand, rank, channels).astype(np.float64)
    moved_bias = bias.astype(np.float64)
    if node.op_type == "Mul":
        if not keeps_digits(scale, wide, scale.dtype):
            return False
        scale, moved_bias = (scale * wide).astype(scale.dtype), moved_bias * wide
    else:
        moved_bias = moved_bias + wide
    if not is_finite(moved_bias, bias.dtype):
        return False
    _replace(graph, normalization, node, scale, moved_bias.astype(bias.dtype))
    return True


def _replace(graph: Graph, normalization: Node, node: Node, scale: Array, bias: Array) -> None:
    """Replace both nodes by one normalization with the new scale and bias."""
    x, _, _, mean, variance = normalization.inputs
    replace_nodes(
        graph,
        [normalization, node],
        "BatchNormalization",
        [
            x,
            add_constant(graph, normalization.inputs[_SCALE], scale),
            add_constant(graph, normalization.inputs[_BIAS], bias),
            mean,
            variance,
        ],
        attributes=normalization.attributes,
    )


def _rank(graph: Graph, value: str) -> int | None:
    value_type = graph.type_of(value)
    return (
        len(value_type.shape)
        if isinstance(value_type, TensorType) and value_type.shape is not None
        else None
    )


BATCH_NORMALIZATION_AFFINE_FUSION = RewriteRule(
    name="batch-normalization-affine-fusion", op_types=frozenset({"Add", "Mul"}), rewrite=_rewrite
)
