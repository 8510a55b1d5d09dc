"""Table of all compiled operators with the functions that lower them."""

from __future__ import annotations

from collections.abc import Mapping

from ortpkg.compiler.lowering import (
    attention_lowering,
    convolution_lowering,
    cumulative_lowering,
    elementwise_lowering,
    extremum_lowering,
    gathering_lowering,
    group_lowering,
    moving_lowering,
    product_lowering,
    quantized_convolution_lowering,
    quantized_lowering,
    quantized_product_lowering,
    recurrent_lowering,
    resizing_lowering,
    rotary_lowering,
    row_lowering,
    special_elements_lowering,
    transposed_convolution_lowering,
)
from ortpkg.compiler.lowering.lowering_registry import Lower, lowerings_of
from ortpkg.compiler.lowering.lowering_scope import LoweringScope
from ortpkg.compiler.tensor_ir.tensor_program import TensorProgram
from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.shapes.knowledge import Knowledge
from ortpkg.graph.topology import topological_order

LOWERINGS: Mapping[tuple[str, str], Lower] = lowerings_of(
    attention_lowering,
    convolution_lowering,
    cumulative_lowering,
    elementwise_lowering,
    extremum_lowering,
    gathering_lowering,
    group_lowering,
    moving_lowering,
    product_lowering,
    quantized_convolution_lowering,
    quantized_lowering,
    quantized_product_lowering,
    recurrent_lowering,
    resizing_lowering,
    rotary_lowering,
    row_lowering,
    special_elements_lowering,
    transposed_convolution_lowering,
)


def lower_graph(graph: Graph, knowledge: Mapping[str, Knowledge], name: str) -> TensorProgram:
    """Return the program of a partition's graph.

    Args:
        graph: a graph whose nodes can be lowered.
        knowledge: inferred types, shapes and elements of its values.
        name: name of the partition.

    Raises:
        NotLoweredError: if a node cannot be lowered.
    """
    scope = LoweringScope(graph, knowledge)
    for index in topological_order(graph):
        lower_node(scope, graph.node(index))
    return scope.program(name)


def lower_node(scope: LoweringScope, node: Node) -> None:
    """Add a node's operations; NotLoweredError tells why that is impossible."""
    scope.lower(node, LOWERINGS.get((node.domain, node.op_type)))
