"""Move a ``BatchNormalization`` behind a ``Conv`` into the convolution's weight and bias."""

from __future__ import annotations

import numpy as np

from ortpkg.graph.graph import Graph, Node
from ortpkg.runtime.engine.transformers.conv_constants import ConvConstants
from ortpkg.runtime.engine.transformers.rewriting import (
    constant_array,
    has_used_output,
    replace_nodes,
    same_provider,
    sole_consumed_producer,
)
from ortpkg.runtime.engine.transformers.transform_context import RewriteRule, TransformContext

_FIRST_VERSION_WITHOUT_IS_TEST = 7
_PARAMETER_COUNT = 4
_DEFAULT_EPSILON = 1e-5


def _rewrite(graph: Graph, node: Node, context: TransformContext) -> bool:
    conv = sole_consumed_producer(graph, node.inputs[0], "Conv")
    if conv is None or not same_provider(conv, node) or not is_inference(graph, node):
        return False
    constants = ConvConstants.of(graph, conv, context)
    parameters = [
        constant_array(graph, value, largest_nbytes=context.largest_constant_nbytes)
        for value in node.inputs[1:]
    ]
    if constants is None or len(parameters) != _PARAMETER_COUNT:
        return False
    wide = [value.astype(np.float64) for value in parameters if value is not None]
    if len(wide) < _PARAMETER_COUNT or any(value.shape != (constants.channels,) for value in wide):
        return False
    scale, shift, mean, variance = wide
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = scale / np.sqrt(variance + node.attribute("epsilon", _DEFAULT_EPSILON))
    scaled = constants.scaled(factor)
    if scaled is None:
        return False
    fused = ConvConstants(weight=scaled.weight, bias=scaled.bias + shift - mean * factor)
    inputs = fused.write(graph, conv)
    if inputs is None:
        return False
    replace_nodes(graph, [conv, node], "Conv", inputs, attributes=conv.attributes)
    return True


def is_inference(graph: Graph, node: Node) -> bool:
    """Return True if a ``BatchNormalization`` only scales and shifts channels, into one output."""
    if node.since_version < _FIRST_VERSION_WITHOUT_IS_TEST or node.attribute("training_mode", 0):
        return False
    # Version 7 could normalize each position by itself.
    return bool(node.attribute("spatial", 1)) and not has_used_output(graph, node.outputs[1:])


CONV_BATCH_NORMALIZATION_FUSION = RewriteRule(
    name="conv-batch-normalization-fusion",
    op_types=frozenset({"BatchNormalization"}),
    rewrite=_rewrite,
)
