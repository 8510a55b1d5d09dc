"""Replace ``CastLike`` by ``Cast`` to the same type, which does not wait for that value."""

from __future__ import annotations

from ortpkg.graph.graph import Attribute, Graph, Node
from ortpkg.runtime.engine.transformers.rewriting import replace_nodes, tensor_type
from ortpkg.runtime.engine.transformers.transform_context import RewriteRule, TransformContext

_TWO = 2


def _rewrite(graph: Graph, node: Node, _context: TransformContext) -> bool:
    source, like = node.inputs[:_TWO]
    target = tensor_type(graph, like)
    if target is None:
        return False
    attributes = {**node.attributes, "to": Attribute("INT", int(target.element_type))}
    replace_nodes(graph, [node], "Cast", [source], attributes=attributes)
    return True


CAST_LIKE_TO_CAST = RewriteRule(
    name="cast-like-to-cast", op_types=frozenset({"CastLike"}), rewrite=_rewrite, fewest_inputs=_TWO
)
