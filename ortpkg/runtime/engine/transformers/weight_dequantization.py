"""Dequantize 8-bit weights once, instead of in each run.

Only nodes of the numpy engine change: other providers have products of quantized values, and look
for these nodes before. Weights of fewer bits stay as they are, as their floats would take too much
memory; so do those of a model that is going to be written.
"""

from __future__ import annotations

from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.types import PACKED_BITS
from ortpkg.runtime.engine.transformers.constant_folding import fold_nodes
from ortpkg.runtime.engine.transformers.rewriting import has_used_output, tensor_type
from ortpkg.runtime.engine.transformers.transform_context import GraphPass, TransformContext

#: Growth of a weight: four bytes of float32 for each byte.
_LARGEST_GROWTH = 4


def _run(graph: Graph, context: TransformContext) -> int:
    if context.only_portable:
        return 0

    def folds(node: Node) -> bool:
        if node.op_type != "DequantizeLinear" or not has_used_output(graph, node.outputs):
            return False
        weight = tensor_type(graph, node.inputs[0]) if node.inputs else None
        return weight is not None and weight.element_type not in PACKED_BITS

    return fold_nodes(graph, context, folds, _LARGEST_GROWTH)


WEIGHT_DEQUANTIZATION = GraphPass(name="weight-dequantization", run=_run)
