"""What fusing rules ask of a pattern: is it closed, scalar, of a type that a kernel takes?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ortpkg.engine.transformers.rewriting import (
    constant_array,
    has_used_output,
    replace_nodes,
    same_provider,
)
from ortpkg.engine.transformers.transform_context import TransformContext
from ortpkg.graph.graph import MICROSOFT_DOMAIN, ONNX_DOMAIN, Attribute, Graph, Node
from ortpkg.graph.operator_schemas import resolve_since_version
from ortpkg.graph.types import Dimension, ElementType, Shape

_SCALAR_NBYTES = 16


def made_by(graph: Graph, value: str, *op_types: str, domain: str = ONNX_DOMAIN) -> Node | None:
    """The node of one of ``op_types`` whose first output is ``value``, its others unused."""
    producer = graph.producer_of(value) if value else None
    if producer is None or producer.domain != domain or producer.op_type not in op_types:
        return None
    if producer.outputs[0] != value or has_used_output(graph, producer.outputs[1:]):
        return None
    return producer


def may_fuse(graph: Graph, nodes: Sequence[Node], context: TransformContext) -> bool:
    """Whether ``nodes`` may become one: of one provider, changeable, inner values used inside."""
    if not same_provider(*nodes) or not all(context.may_change(node) for node in nodes):
        return False
    inside = {node.index for node in nodes}
    most_uses = sum(len(node.inputs) for node in nodes)
    return all(
        not graph.is_output(output)
        and graph.use_count(output)
        <= most_uses  # there may be thousands, seen from each of as many patterns
        and all(use.node_index in inside and use.slot >= 0 for use in graph.consumers_of(output))
        for node in nodes[:-1]
        for output in node.outputs
        if output
    )


def scalar(graph: Graph, value: str, *, most_dimensions: int = 0) -> float | None:
    """The number that a constant of one element and at most that many dimensions holds.

    None where it is none.
    """
    array = constant_array(graph, value, largest_nbytes=_SCALAR_NBYTES)
    if (
        array is None
        or array.size != 1
        or array.ndim > most_dimensions
        or array.dtype.kind not in "fiu"
    ):
        return None
    return float(array.reshape(-1)[0])


def scaled(graph: Graph, value: str) -> tuple[str, float, list[Node]]:
    """What ``value`` is a multiple of, the constant factor, the ``Mul``, ``Div`` nodes between."""
    factor, nodes = 1.0, list[Node]()
    while (node := made_by(graph, value, "Mul", "Div")) is not None:
        slot = next(
            (
                slot
                for slot in ((0, 1) if node.op_type == "Mul" else (1,))
                if _is_scalar(graph, node, slot)
            ),
            -1,
        )
        if slot < 0:
            break
        number = scalar(graph, node.inputs[slot], most_dimensions=1)
        assert number is not None
        if node.op_type == "Div" and number == 0:
            break
        factor = factor * number if node.op_type == "Mul" else factor / number
        value = node.inputs[1 - slot]
        nodes.append(node)
    return value, factor, nodes


def _is_scalar(graph: Graph, node: Node, slot: int) -> bool:
    """A constant vector of one element keeps every shape but a scalar's."""
    if scalar(graph, node.inputs[slot]) is not None:
        return True
    other = graph.type_of(node.inputs[1 - slot])
    return (
        bool(getattr(other, "shape", None))
        and scalar(graph, node.inputs[slot], most_dimensions=1) is not None
    )


def same_shape(first: Shape | None, second: Shape | None) -> bool:
    """Whether two shapes are surely equal."""
    return first is not None and None not in first and first == second


def same_dimension(first: Dimension, second: Dimension) -> bool:
    """Whether both are surely equal: one that is not known equals none."""
    return first is not None and first == second


def has_kernel(
    graph: Graph,
    context: TransformContext,
    like: Node,
    op_type: str,
    element_type: ElementType,
    *,
    domain: str = MICROSOFT_DOMAIN,
    constraint: str = "T",
    attributes: Mapping[str, Attribute] | None = None,
) -> bool:
    """Whether the provider of ``like`` has a kernel for ``op_type`` on that element type."""
    opset = graph.opset_imports.get(domain, 1)
    candidate = Node(
        index=-1,
        name=like.name,
        op_type=op_type,
        domain=domain,
        inputs=(),
        outputs=(),
        attributes=dict(attributes or {}),
        since_version=resolve_since_version(domain, op_type, opset),
        execution_provider=like.execution_provider,
    )
    return context.kernel_exists(candidate, {constraint: element_type})


def fuse(
    graph: Graph,
    nodes: Sequence[Node],
    op_type: str,
    inputs: Sequence[str],
    *,
    domain: str = MICROSOFT_DOMAIN,
    attributes: Mapping[str, Attribute] | None = None,
) -> bool:
    """Puts the fused node in place of ``nodes``; True, as a rule returns it."""
    replace_nodes(graph, nodes, op_type, inputs, domain=domain, attributes=attributes)
    return True


def number(value: float) -> Attribute:
    """A number as an attribute holds it, in single precision."""
    return Attribute("FLOAT", float(np.float32(value)))
