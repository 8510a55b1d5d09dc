"""Move ``Add`` and ``Mul`` per channel behind a ``Conv`` into its weight and bias."""

from __future__ import annotations

import numpy as np

from ortpkg.graph.graph import Graph, Node
from ortpkg.runtime.engine.transformers.conv_constants import ConvConstants
from ortpkg.runtime.engine.transformers.rewriting import (
    Array,
    constant_array,
    is_per_channel,
    per_channel,
    replace_nodes,
    same_provider,
    sole_consumed_producer,
)
from ortpkg.runtime.engine.transformers.transform_context import RewriteRule, TransformContext

_FIRST_VERSION_WITH_BROADCASTING = 7


def _rewrite(graph: Graph, node: Node, context: TransformContext) -> bool:
    if node.since_version < _FIRST_VERSION_WITH_BROADCASTING:
        return False
    return any(_fuse(graph, node, slot, context) for slot in (0, 1))


def _fuse(graph: Graph, node: Node, slot: int, context: TransformContext) -> bool:
    conv = sole_consumed_producer(graph, node.inputs[slot], "Conv")
    operand = constant_array(
        graph, node.inputs[1 - slot], largest_nbytes=context.largest_constant_nbytes
    )
    if conv is None or operand is None or not same_provider(conv, node):
        return False
    constants = ConvConstants.of(graph, conv, context)
    if constants is None or not is_per_channel(operand.shape, constants.rank, constants.channels):
        return False
    fused = _combined(
        node.op_type, constants, per_channel(operand, constants.rank, constants.channels)
    )
    inputs = None if fused is None else fused.write(graph, conv)
    if inputs is None:
        return False
    replace_nodes(graph, [conv, node], "Conv", inputs, attributes=conv.attributes)
    return True


def _combined(op_type: str, constants: ConvConstants, operand: Array) -> ConvConstants | None:
    if op_type == "Mul":
        return constants.scaled(operand)
    return ConvConstants(weight=constants.weight, bias=constants.bias.astype(np.float64) + operand)


CONV_AFFINE_FUSION = RewriteRule(
    name="conv-affine-fusion", op_types=frozenset({"Add", "Mul"}), rewrite=_rewrite
)
