"""Refuses axes that a tensor does not have, or that a node names twice, for every provider.

Attributes and constant inputs are checked against ranks that are known. Kernels check the rest in a
run.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from ortpkg.graph.graph import ONNX_DOMAIN, Graph, Node
from ortpkg.graph.types import ElementType, TensorType

#: Operators whose attribute ``axis`` counts the axes of the first input, from the back too → since
#: which version. The older ones joined axes, and took the rank itself.
_WITH_AXIS: Mapping[str, int] = {
    "ArgMax": 1,
    "ArgMin": 1,
    "Concat": 4,
    "Gather": 1,
    "GatherElements": 11,
    "Hardmax": 13,
    "LayerNormalization": 17,
    "LogSoftmax": 13,
    "LpNormalization": 1,
    "RMSNormalization": 23,
    "ScatterElements": 11,
    "Softmax": 13,
    "Split": 2,
    "TopK": 10,
}
#: Operators that name axes by an attribute, or in later versions by the input of that slot; None if
#: no version has such an input.
_WITH_AXES: Mapping[str, int | None] = {
    "CenterCropPad": None,
    "Pad": 3,
    "Resize": None,
    "Slice": 3,
    "Squeeze": 1,
    "Unsqueeze": 1,
}
_REDUCTION = "Reduce"
_AXES_SLOT = 1
_MOST_AXES = 64
_LEAST_RANK_OF_LRN = 3


def axis_problem(graph: Graph, node: Node) -> str:
    """Return the problem of a node's axes, as far as ranks are known; "" if there is none.

    It is a sentence without its subject, the node.
    """
    rank = _rank(graph, node)
    if node.domain != ONNX_DOMAIN or rank is None:
        return ""
    if node.op_type == "LRN" and rank < _LEAST_RANK_OF_LRN:
        return f"takes a tensor of {rank} axes; {_LEAST_RANK_OF_LRN} or more were expected"
    if node.since_version >= _WITH_AXIS.get(node.op_type, node.since_version + 1):
        axis = node.attribute("axis")
        return _misfit((axis,), rank) if isinstance(axis, int) else ""
    if node.op_type == "Transpose":
        return _order_misfit(node, rank)
    if node.op_type in _WITH_AXES or node.op_type.startswith(_REDUCTION):
        axes = _axes(graph, node, _WITH_AXES.get(node.op_type, _AXES_SLOT))
        return _misfit(axes, rank + len(axes) if node.op_type == "Unsqueeze" else rank)
    return ""


def _misfit(axes: tuple[int, ...], rank: int) -> str:
    most = max(rank, 1)
    for axis in axes:
        if not -most <= axis < most:
            return (
                f"names the axis {axis} of a tensor of {rank} axes; a number from {-most} to"
                f" {most - 1} was expected"
            )
    if len({axis % most for axis in axes}) < len(axes):
        return f"names an axis twice, in {axes}"
    return ""


def _order_misfit(node: Node, rank: int) -> str:
    order = node.attribute("perm")
    if order is None or len(order) == rank:
        return ""
    return f"has the attribute 'perm' of {tuple(order)}; each of {rank} axes was expected once"


def _axes(graph: Graph, node: Node, slot: int | None) -> tuple[int, ...]:
    """Return the axes in an attribute or a constant; () if they are known only in a run."""
    attribute = node.attributes.get("axes")
    if attribute is not None:
        return tuple(attribute.value) if attribute.kind == "INTS" else ()
    if slot is None or len(node.inputs) <= slot or not node.inputs[slot]:
        return ()
    constant = graph.constant(node.inputs[slot])
    if (
        constant is None
        or constant.element_type is not ElementType.INT64
        or prod(constant.shape) > _MOST_AXES
    ):
        return ()
    return tuple(int(axis) for axis in constant.numpy().reshape(-1))


def _rank(graph: Graph, node: Node) -> int | None:
    value = graph.type_of(node.inputs[0]) if node.inputs and node.inputs[0] else None
    if not isinstance(value, TensorType) or value.shape is None:
        return None
    return len(value.shape)
