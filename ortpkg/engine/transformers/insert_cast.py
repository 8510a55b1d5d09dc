"""Runs float16 nodes in float32 where their provider has no float16 kernel, with casts around them.

A correctness transformer: it runs after the partition at every optimization level. Neighbouring nodes that both run in
float32 pass their values on without rounding to float16 in between, as onnxruntime does.
"""

from __future__ import annotations

import numpy as np

from ortpkg.engine.transformers.rewriting import add_constant, constant_array
from ortpkg.engine.transformers.transform_context import GraphPass, TransformContext
from ortpkg.graph.graph import ONNX_DOMAIN, Attribute, Graph, Node
from ortpkg.graph.schemas import constraint_types, resolve_since_version
from ortpkg.graph.topology import topological_order
from ortpkg.graph.types import ElementType, TensorType

#: Attributes that state a type of their own: with one, the outputs' type is not the inputs'.
_TYPE_ATTRIBUTES = frozenset({"to", "dtype", "value", "output_dtype", "saturate"})


def _run(graph: Graph, context: TransformContext) -> int:
    wide_of: dict[str, str] = {}  # float16 value → the same in float32
    casts_back: list[Node] = []
    changed = 0
    for index in topological_order(graph):
        node = graph.node(index)
        if context.may_change(node) and _needs_float32(graph, node, context):
            _widen(graph, node, context, wide_of, casts_back)
            changed += 1
    for cast in casts_back:
        if not graph.consumers_of(cast.outputs[0]) and not graph.is_output(cast.outputs[0]):
            graph.remove_node(cast)
    return changed


def _needs_float32(graph: Graph, node: Node, context: TransformContext) -> bool:
    if node.domain != ONNX_DOMAIN or node.subgraphs or _TYPE_ATTRIBUTES & node.attributes.keys():
        return False
    types = constraint_types(graph, node)
    if ElementType.FLOAT16 not in types.values() or context.kernel_exists(node, types):
        return False
    wide = {
        name: ElementType.FLOAT if element_type is ElementType.FLOAT16 else element_type
        for name, element_type in types.items()
    }
    return context.kernel_exists(node, wide)


def _widen(
    graph: Graph, node: Node, context: TransformContext, wide_of: dict[str, str], casts_back: list[Node]
) -> None:
    for slot, value in enumerate(node.inputs):
        if _is_float16(graph, value):
            if value not in wide_of:
                wide_of[value] = _widened_constant(graph, value, context) or _cast_to_float32(graph, node, value)
            graph.replace_input(node, slot, wide_of[value])
    narrow = [value for value in node.outputs if _is_float16(graph, value)]
    for value in narrow:
        wide_of[value] = _wide_value(graph, value)
    graph.set_node_outputs(node, [wide_of.get(value, value) for value in node.outputs])
    casts_back += [_add_cast(graph, node, wide_of[value], value, ElementType.FLOAT16) for value in narrow]


def _widened_constant(graph: Graph, value: str, context: TransformContext) -> str | None:
    """A float32 copy of a constant, so that no run casts it; None where there is none, or it would be too large."""
    array = constant_array(graph, value, largest_nbytes=context.largest_constant_nbytes // 2)
    return None if array is None else add_constant(graph, f"{value}_float", array.astype(np.float32))


def _cast_to_float32(graph: Graph, node: Node, value: str) -> str:
    wide = _wide_value(graph, value)
    _add_cast(graph, node, value, wide, ElementType.FLOAT)
    return wide


def _is_float16(graph: Graph, value: str) -> bool:
    value_type = graph.type_of(value) if value else None
    return isinstance(value_type, TensorType) and value_type.element_type is ElementType.FLOAT16


def _wide_value(graph: Graph, value: str) -> str:
    narrow = graph.type_of(value)
    wide = graph.make_name(f"{value}_float")
    graph.set_type(wide, TensorType(ElementType.FLOAT, narrow.shape if isinstance(narrow, TensorType) else None))
    return wide


def _add_cast(graph: Graph, beside: Node, source: str, target: str, to: ElementType) -> Node:
    return graph.add_node(
        "Cast",
        [source],
        [target],
        name=f"InsertedCast_{target}",
        attributes={"to": Attribute("INT", int(to))},
        since_version=resolve_since_version(ONNX_DOMAIN, "Cast", graph.opset_imports[ONNX_DOMAIN]),
        execution_provider=beside.execution_provider,
        at=beside,
    )


INSERT_CAST = GraphPass(name="insert-cast", run=_run)
