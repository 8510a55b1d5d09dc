"""Replace small integer tensors whose elements shape inference knows by constants.

A declared size can be picked from the shape of a tensor with free sizes, too:
``Gather(Shape(x), 2)`` of ``x: (batch, 3, 8, 8)`` is 8. Constant folding then continues through
arithmetic that inference does not follow, such as that of floats.
"""

from __future__ import annotations

import numpy as np

from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.load_control import poll_load
from ortpkg.graph.types import numpy_dtype
from ortpkg.runtime.engine.transformers.rewriting import add_constant, has_used_output, tensor_type
from ortpkg.runtime.engine.transformers.transform_context import GraphPass, TransformContext


def _run(graph: Graph, context: TransformContext) -> int:
    folded = 0
    for name in tuple(graph.known_elements):
        poll_load()
        node = graph.producer_of(name)
        if node is not None and context.may_change(node) and _fold(graph, node, name):
            folded += 1
    return folded


def _fold(graph: Graph, node: Node, output: str) -> bool:
    """Replace a node whose only used output is known; return True if it was replaced."""
    elements, output_type = graph.known_elements[output], tensor_type(graph, output)
    numbers = [element for element in elements if isinstance(element, int)]
    other_outputs = [name for name in node.outputs if name != output]
    if len(numbers) < len(elements) or output_type is None or not output_type.is_static:
        return False
    if graph.is_output(output) or has_used_output(graph, other_outputs):
        return False
    shape = tuple(size for size in output_type.shape or () if isinstance(size, int))
    value = np.array(numbers, numpy_dtype(output_type.element_type)).reshape(shape)
    graph.remove_node(node)
    graph.replace_all_uses(output, add_constant(graph, output, value))
    return True


KNOWN_ELEMENTS_FOLDING = GraphPass(name="known-elements-folding", run=_run)
