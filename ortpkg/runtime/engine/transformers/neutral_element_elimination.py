"""Remove x + 0, x - 0, x * 1 and x / 1 if the constant does not change the shape either."""

from __future__ import annotations

from ortpkg.graph.graph import Graph, Node
from ortpkg.runtime.engine.transformers.rewriting import (
    constant_array,
    known_shape,
    pass_through,
    tensor_type,
)
from ortpkg.runtime.engine.transformers.transform_context import RewriteRule, TransformContext

_NEUTRAL = {"Add": 0, "Sub": 0, "Mul": 1, "Div": 1}
_COMMUTATIVE = frozenset({"Add", "Mul"})
_FIRST_VERSION_WITH_BROADCASTING = 7
_LARGEST_NBYTES = 1 << 20


def _rewrite(graph: Graph, node: Node, _context: TransformContext) -> bool:
    if node.since_version < _FIRST_VERSION_WITH_BROADCASTING:
        return False
    slots = (0, 1) if node.op_type in _COMMUTATIVE else (0,)
    return any(
        _is_neutral(graph, node, 1 - slot) and pass_through(graph, node, slot) for slot in slots
    )


def _is_neutral(graph: Graph, node: Node, slot: int) -> bool:
    """Return True if the input at ``slot`` changes neither value nor shape of the other one."""
    other = tensor_type(graph, node.inputs[1 - slot])
    constant = constant_array(graph, node.inputs[slot], largest_nbytes=_LARGEST_NBYTES)
    if other is None or other.shape is None or constant is None:
        return False
    if constant.ndim > len(other.shape):
        return False
    aligned = other.shape[len(other.shape) - constant.ndim :]
    if any(
        size not in (1, dimension) for size, dimension in zip(constant.shape, aligned, strict=True)
    ):
        return False
    if known_shape(graph, node.outputs[0]) not in (None, other.shape):
        return False
    return bool((constant == _NEUTRAL[node.op_type]).all())


NEUTRAL_ELEMENT_ELIMINATION = RewriteRule(
    name="neutral-element-elimination", op_types=frozenset(_NEUTRAL), rewrite=_rewrite
)
