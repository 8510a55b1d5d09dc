"""Replace ``Shape`` and ``Size`` of a value whose dimensions are all known by constants."""

from __future__ import annotations

from math import prod

import numpy as np

from ortpkg.graph.graph import Graph, Node
from ortpkg.runtime.engine.transformers.rewriting import add_constant, tensor_type
from ortpkg.runtime.engine.transformers.transform_context import RewriteRule, TransformContext

_LARGEST = np.iinfo(np.int64).max


def _rewrite(graph: Graph, node: Node, _context: TransformContext) -> bool:
    output = node.outputs[0]
    source = tensor_type(graph, node.inputs[0])
    if graph.is_output(output) or source is None or source.shape is None:
        return False
    shape = source.shape
    if node.op_type == "Shape":
        start, end = node.attribute("start", 0), node.attribute("end", len(shape))
        if not isinstance(start, int) or not isinstance(
            end, int
        ):  # older versions define neither, and no type
            return False
        shape = shape[start:end]
    sizes = [dimension for dimension in shape if isinstance(dimension, int)]
    if len(sizes) < len(shape):
        return False
    numbers = sizes if node.op_type == "Shape" else [prod(sizes)]
    if any(number > _LARGEST for number in numbers):
        return False  # no run will see such a value
    value = np.array(sizes if node.op_type == "Shape" else prod(sizes), dtype=np.int64)
    graph.remove_node(node)
    graph.replace_all_uses(output, add_constant(graph, output, value))
    return True


SHAPE_FOLDING = RewriteRule(
    name="shape-folding", op_types=frozenset({"Shape", "Size"}), rewrite=_rewrite
)
