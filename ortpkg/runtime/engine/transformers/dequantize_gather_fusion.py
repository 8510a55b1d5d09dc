"""Look up rows of a quantized table before they are dequantized.

The numpy engine needs it: otherwise each run would convert a whole table of embeddings to floats,
which take four times its size, for a few of its rows.
"""

from __future__ import annotations

from ortpkg.graph.graph import ONNX_DOMAIN, Graph, Node
from ortpkg.graph.types import ElementType, TensorType
from ortpkg.runtime.engine.transformers.rewriting import (
    known_shape,
    replace_nodes,
    same_provider,
    tensor_type,
)
from ortpkg.runtime.engine.transformers.transform_context import RewriteRule, TransformContext

_CODES = frozenset({ElementType.UINT8, ElementType.INT8})


def _rewrite(graph: Graph, node: Node, _context: TransformContext) -> bool:
    dequantize = graph.producer_of(node.inputs[0])
    if dequantize is None or not _is_of_a_table(graph, dequantize):
        return False
    if not same_provider(dequantize, node):
        return False
    table = tensor_type(graph, dequantize.inputs[0])
    if table is None or table.element_type not in _CODES:
        return False
    rows = graph.make_name(f"{node.outputs[0]}_quantized")
    graph.set_type(rows, TensorType(table.element_type, known_shape(graph, node.outputs[0])))
    replace_nodes(
        graph,
        [node],
        node.op_type,
        [dequantize.inputs[0], *node.inputs[1:]],
        attributes=node.attributes,
        outputs=[rows],
    )
    graph.add_node(
        "DequantizeLinear",
        [rows, *dequantize.inputs[1:]],
        node.outputs,
        attributes=dequantize.attributes,
        since_version=dequantize.since_version,
        execution_provider=node.execution_provider,
        at=node,
    )
    return True


def _is_of_a_table(graph: Graph, node: Node) -> bool:
    """Return True for a DequantizeLinear of a constant with one scale and one zero point."""
    return (
        node.domain == ONNX_DOMAIN
        and node.op_type == "DequantizeLinear"
        and graph.is_constant(node.inputs[0])
        and all(known_shape(graph, name) in ((), (1,)) for name in node.inputs[1:] if name)
        and not node.attribute("block_size", 0)
    )


DEQUANTIZE_GATHER_FUSION = RewriteRule(
    name="dequantize-gather-fusion", op_types=frozenset({"Gather"}), rewrite=_rewrite
)
