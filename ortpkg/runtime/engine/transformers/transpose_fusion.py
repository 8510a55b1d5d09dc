"""Remove ``Transpose`` nodes that keep the order of axes, and merge two in a row."""

from __future__ import annotations

from ortpkg.graph.graph import ONNX_DOMAIN, Attribute, Graph, Node
from ortpkg.runtime.engine.transformers.rewriting import known_shape, pass_through, replace_nodes
from ortpkg.runtime.engine.transformers.transform_context import RewriteRule, TransformContext


def _eliminate(graph: Graph, node: Node, _context: TransformContext) -> bool:
    order = _order_of(graph, node)
    if order is None or order != tuple(range(len(order))):
        return False
    return pass_through(graph, node)


def _fuse(graph: Graph, node: Node, context: TransformContext) -> bool:
    """Let the second of two read the input of the first, which stays if it has other consumers."""
    first = graph.producer_of(node.inputs[0])
    if (
        first is None
        or first.domain != ONNX_DOMAIN
        or first.op_type != "Transpose"
        or not context.may_change(first)
    ):
        return False
    inner, outer = _order_of(graph, first), _order_of(graph, node)
    if inner is None or outer is None or len(inner) != len(outer):
        return False
    order = tuple(inner[axis] for axis in outer)
    replace_nodes(
        graph, [node], "Transpose", first.inputs, attributes={"perm": Attribute("INTS", order)}
    )
    return True


def _order_of(graph: Graph, node: Node) -> tuple[int, ...] | None:
    """Return the order of axes; None if it reverses an unknown number of them, or is no order."""
    order = node.attribute("perm")
    if order is None:
        shape = known_shape(graph, node.inputs[0])
        return None if shape is None else tuple(reversed(range(len(shape))))
    return tuple(order) if sorted(order) == list(range(len(order))) else None


TRANSPOSE_ELIMINATION = RewriteRule(
    name="transpose-elimination", op_types=frozenset({"Transpose"}), rewrite=_eliminate
)
TRANSPOSE_FUSION = RewriteRule(
    name="transpose-fusion", op_types=frozenset({"Transpose"}), rewrite=_fuse
)
