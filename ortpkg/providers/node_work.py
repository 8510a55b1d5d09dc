"""Counts about how many operations a node is, from the sizes of its values alone."""

from __future__ import annotations

import math

from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.types import TensorType

#: What a dimension counts as that only a run can tell.
NOMINAL_DIMENSION = 64
#: So many operations count as much as calling a node.
OPERATIONS_PER_CALL = 10_000


def operation_count(graph: Graph, node: Node) -> int:
    """About how many operations a node takes: two for each step of a sum, else one an element."""
    made = sum(value_size(graph, value) for value in node.outputs if value)
    taken = [value_size(graph, value) if value else 0 for value in node.inputs]
    kind = node.op_type
    if "MatMul" in kind or kind in {"Gemm", "QGemm"}:
        return 2 * made * _inner_size(graph, node)
    if "Conv" in kind and len(taken) > 1:
        channels = _dimensions(graph, node.inputs[1])[:1]
        return 2 * made * max(taken[1] // max(channels[0] if channels else 1, 1), 1)
    return max([made, *taken])


def node_work(graph: Graph, node: Node) -> int:
    """The operations of one call of the node; those of graphs inside it are not counted."""
    return OPERATIONS_PER_CALL + operation_count(graph, node)


def whole_work(graph: Graph, node: Node) -> int:
    """The same with each node inside it once."""
    inside = (whole_work(inner, each) for inner in node.subgraphs.values() for each in inner.nodes)
    return node_work(graph, node) + sum(inside)


def value_size(graph: Graph, value: str) -> int:
    """Elements of a value, unknown dimensions counted as nominal ones."""
    return math.prod(_dimensions(graph, value))


def _inner_size(graph: Graph, node: Node) -> int:
    """The length of the sums of a matrix product."""
    sizes = _dimensions(graph, node.inputs[0]) if node.inputs else ()
    if not sizes:
        return 1
    return sizes[0] if node.attribute("transA", 0) and len(sizes) == 2 else sizes[-1]


def _dimensions(graph: Graph, value: str) -> tuple[int, ...]:
    found = graph.type_of(value)
    if not isinstance(found, TensorType):
        return ()
    if found.shape is None:
        return (NOMINAL_DIMENSION,)
    return tuple(size if isinstance(size, int) else NOMINAL_DIMENSION for size in found.shape)
