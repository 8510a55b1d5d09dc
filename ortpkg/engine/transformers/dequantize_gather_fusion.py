"""Gathers a quantized table's rows before they are dequantized, not the whole table each run."""

from __future__ import annotations

from ortpkg.engine.transformers.patterns import made_by
from ortpkg.engine.transformers.quantized_values import dequantized
from ortpkg.engine.transformers.rewriting import known_shape, replace_nodes, same_provider
from ortpkg.engine.transformers.transform_context import RewriteRule, TransformContext
from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.types import TensorType


def _rewrite(graph: Graph, node: Node, context: TransformContext) -> bool:
    table = dequantized(graph, node.inputs[0])
    dequantize = made_by(graph, node.inputs[0], "DequantizeLinear")
    if (
        table is None
        or dequantize is None
        or table.axis is not None
        or not graph.is_constant(table.value)
    ):
        return False
    if not context.may_change(dequantize) or not same_provider(dequantize, node):
        return False
    rows = graph.make_name(f"{node.outputs[0]}_quantized")
    graph.set_type(rows, TensorType(table.element_type, known_shape(graph, node.outputs[0])))
    inputs = [rows, *dequantize.inputs[1:]]
    replace_nodes(
        graph,
        [node],
        node.op_type,
        [table.value, *node.inputs[1:]],
        attributes=node.attributes,
        outputs=[rows],
    )
    graph.add_node(
        "DequantizeLinear",
        inputs,
        node.outputs,
        attributes=dequantize.attributes,
        since_version=dequantize.since_version,
        execution_provider=node.execution_provider,
        at=node,
    )
    return True


DEQUANTIZE_GATHER_FUSION = RewriteRule(
    name="dequantize-gather-fusion", op_types=frozenset({"Gather"}), rewrite=_rewrite
)
