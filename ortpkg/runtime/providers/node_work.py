"""Estimates the number of operations of a node from the sizes of its values."""

from __future__ import annotations

import math

from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.types import TensorType

#: Assumed size of a dimension that is known only at run time.
NOMINAL_DIMENSION = 64
#: Cost of calling a node, counted in operations.
OPERATIONS_PER_CALL = 10_000
#: Cost of calling compiled code once more because nodes between its pieces are not compiled: some
#: ten microseconds.
OPERATIONS_PER_PIECE = 100_000


def operation_count(graph: Graph, node: Node) -> int:
    """Estimate a node's operations: two per term of a sum of products, else one per element."""
    output_size = sum(assumed_element_count(graph, value) for value in node.outputs if value)
    input_sizes = [assumed_element_count(graph, value) if value else 0 for value in node.inputs]
    op_type = node.op_type
    if "MatMul" in op_type or op_type in {"Gemm", "QGemm"}:
        return 2 * output_size * _inner_size(graph, node)
    if "Conv" in op_type and len(input_sizes) > 1:
        channels = _dimensions(graph, node.inputs[1])[:1]
        return 2 * output_size * max(input_sizes[1] // max(channels[0] if channels else 1, 1), 1)
    return max([output_size, *input_sizes])


def node_work(graph: Graph, node: Node) -> int:
    """Return the operations of calling the node once, without those of its subgraphs."""
    return OPERATIONS_PER_CALL + operation_count(graph, node)


def whole_work(graph: Graph, node: Node) -> int:
    """Return the operations of calling the node and each node of its subgraphs once."""
    inner_work = (
        whole_work(inner, inner_node)
        for inner in node.subgraphs.values()
        for inner_node in inner.nodes
    )
    return node_work(graph, node) + sum(inner_work)


def assumed_element_count(graph: Graph, value: str) -> int:
    """Return the number of elements of a value; unknown dimensions count as 64."""
    return math.prod(_dimensions(graph, value))


def _inner_size(graph: Graph, node: Node) -> int:
    """Return the number of terms in each sum of a matrix product."""
    sizes = _dimensions(graph, node.inputs[0]) if node.inputs else ()
    if not sizes:
        return 1
    return sizes[0] if node.attribute("transA", 0) and len(sizes) == 2 else sizes[-1]


def _dimensions(graph: Graph, value: str) -> tuple[int, ...]:
    value_type = graph.type_of(value)
    if not isinstance(value_type, TensorType):
        return ()
    if value_type.shape is None:
        return (NOMINAL_DIMENSION,)
    return tuple(size if isinstance(size, int) else NOMINAL_DIMENSION for size in value_type.shape)
