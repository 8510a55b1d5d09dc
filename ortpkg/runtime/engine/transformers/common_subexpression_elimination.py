"""Merge nodes that compute the same from the same inputs; small equal constants count as one."""

from __future__ import annotations

from collections.abc import Hashable

from ortpkg.graph.graph import ML_DOMAIN, ONNX_DOMAIN, Attribute, Graph, Initializer, Node
from ortpkg.graph.topology import topological_order
from ortpkg.graph.types import ElementType
from ortpkg.runtime.engine.transformers.transform_context import GraphPass, TransformContext

_NOT_FUNCTIONS_OF_THEIR_INPUTS = frozenset({
    "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial",
    "Bernoulli", "Dropout",
})  # fmt: skip
_LARGEST_COMPARED_NBYTES = 1024


def _run(graph: Graph, context: TransformContext) -> int:
    first_of: dict[Hashable, Node] = {}
    removed = 0
    for index in topological_order(graph):
        node = graph.node(index)
        if not context.may_change(node) or not _is_function_of_its_inputs(node):
            continue
        same = first_of.setdefault(_key(graph, node), node)
        if same is not node and not any(graph.is_output(output) for output in node.outputs):
            graph.remove_node(node)
            for old, new in zip(node.outputs, same.outputs, strict=True):
                if old:
                    graph.replace_all_uses(old, new)
            removed += 1
    return removed


def _is_function_of_its_inputs(node: Node) -> bool:
    """Return False for operators of other domains, which may have effects, and for random ones."""
    if node.domain not in (ONNX_DOMAIN, ML_DOMAIN) or node.subgraphs:
        return False
    return node.op_type not in _NOT_FUNCTIONS_OF_THEIR_INPUTS


def _key(graph: Graph, node: Node) -> Hashable:
    return (
        node.domain,
        node.op_type,
        node.since_version,
        node.execution_provider,
        tuple(_value_key(graph, value) for value in node.inputs),
        tuple(bool(output) for output in node.outputs),
        tuple(
            (name, _attribute_key(attribute)) for name, attribute in sorted(node.attributes.items())
        ),
    )


def _value_key(graph: Graph, value: str) -> Hashable:
    constant = graph.constant(value) if value else None
    return value if constant is None else _constant_key(constant, value)


def _attribute_key(attribute: Attribute) -> Hashable:
    value = attribute.value
    if attribute.kind == "TENSOR":
        return "TENSOR", _constant_key(value, id(value))
    if attribute.kind in ("TENSORS", "SPARSE_TENSOR", "SPARSE_TENSORS"):
        return attribute.kind, id(value)
    # repr tells 0.0 from -0.0 and makes NaN equal itself.
    return attribute.kind, repr(value)


def _constant_key(constant: Initializer, otherwise: Hashable) -> Hashable:
    if constant.nbytes > _LARGEST_COMPARED_NBYTES or constant.element_type is ElementType.STRING:
        return otherwise
    return constant.element_type, constant.shape, constant.numpy().tobytes()


COMMON_SUBEXPRESSION_ELIMINATION = GraphPass(name="common-subexpression-elimination", run=_run)
