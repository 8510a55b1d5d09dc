"""Turn ``Constant`` nodes into initializers: other transformers know one kind of constant."""

from __future__ import annotations

import numpy as np

from ortpkg.graph.graph import ArrayInitializer, Graph, Initializer, Node
from ortpkg.graph.initializers import MappedInitializer, SparseInitializer
from ortpkg.graph.types import ElementType, TensorType, numpy_dtype
from ortpkg.runtime.engine.transformers.transform_context import RewriteRule, TransformContext

_LISTS = {
    "value_float": ElementType.FLOAT,
    "value_floats": ElementType.FLOAT,
    "value_int": ElementType.INT64,
    "value_ints": ElementType.INT64,
    "value_string": ElementType.STRING,
    "value_strings": ElementType.STRING,
}


def _rewrite(graph: Graph, node: Node, _context: TransformContext) -> bool:
    output = node.outputs[0]
    if graph.is_output(output):
        return False
    constant = _constant(node, output)
    if constant is None:
        return False
    graph.remove_node(node)
    graph.add_initializer(constant)
    graph.set_type(output, TensorType(constant.element_type, constant.shape))
    return True


def _constant(node: Node, name: str) -> Initializer | None:
    """Return the node's value under the name of its output; None for a sparse one, which stays."""
    if len(node.attributes) != 1:
        return None
    ((key, attribute),) = node.attributes.items()
    if key in _LISTS:
        array = np.array(node.attribute(key), dtype=numpy_dtype(_LISTS[key]))
        array.flags.writeable = False
        return ArrayInitializer(name, array, _LISTS[key])
    tensor = attribute.value
    if key != "value" or isinstance(tensor, SparseInitializer):
        return None
    if isinstance(tensor, MappedInitializer):
        return MappedInitializer(
            name=name,
            element_type=tensor.element_type,
            shape=tensor.shape,
            source=tensor.source,
            offset=tensor.offset,
        )
    return ArrayInitializer(name, tensor.numpy(), tensor.element_type)


CONSTANT_NODE_TO_INITIALIZER = RewriteRule(
    name="constant-node-to-initializer",
    op_types=frozenset({"Constant"}),
    rewrite=_rewrite,
    fewest_inputs=0,
)
