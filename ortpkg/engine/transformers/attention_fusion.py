"""softmax(scale · Q · Kᵀ + mask) · V over heads becomes com.microsoft's MultiHeadAttention.

The patterns of models exported from PyTorch: scaled scores (BERT, ViT), scaled queries (Whisper),
queries and keys each scaled by a root (scaled_dot_product_attention), an additive mask or none.
Biases of the projections go along where all three are constant rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ortpkg.engine.transformers.attention_patterns import (
    Heads,
    fits_scores,
    match_heads,
    match_joined_heads,
)
from ortpkg.engine.transformers.patterns import has_kernel, made_by, may_fuse, number, scaled
from ortpkg.engine.transformers.rewriting import (
    has_used_output,
    known_shape,
    replace_nodes,
    same_provider,
    sole_consumer,
    tensor_type,
)
from ortpkg.engine.transformers.transform_context import RewriteRule, TransformContext
from ortpkg.graph.graph import MICROSOFT_DOMAIN, ONNX_DOMAIN, Attribute, Graph, Node
from ortpkg.graph.types import TensorType

_FIRST_VERSION_WITH_OWN_AXIS = 13


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scores:
    """scale · Q · Kᵀ + mask: its factors, the mask ("" for none), the nodes from the scores on."""

    query: Heads
    key: Heads
    mask: str
    scale: float
    nodes: list[Node]


def _rewrite(graph: Graph, node: Node, context: TransformContext) -> bool:
    product = sole_consumer(graph, node.outputs[0])
    known = tensor_type(graph, node.outputs[0])
    if product is None or known is None or known.shape is None or not _is_matmul(product):
        return False
    if product.inputs[0] != node.outputs[0] or not _is_over_keys(node, len(known.shape)):
        return False
    value = match_heads(graph, product.inputs[1])
    scores = _match_scores(graph, node.inputs[0])
    if value is None or value.factor != 1 or scores is None or scores.query.heads != value.heads:
        return False
    joined = match_joined_heads(graph, product.outputs[0], value.heads, value.size)
    if joined is None or not _fit(graph, scores, value):
        return False
    if context.only_portable and scores.mask and _is_repeated_per_query(graph, scores.mask, known):
        return False
    transpose, reshape = joined
    core = [
        *reversed(scores.nodes),
        node,
        product,
        transpose,
        *([] if reshape is None else [reshape]),
    ]
    # Factors may have other uses (keys and values that are kept for later); the nodes that make
    # them then stay.
    if scores.mask in {output for inner in core for output in inner.outputs}:
        return False
    apart = [inner for heads in (scores.query, scores.key, value) for inner in heads.nodes]
    if not may_fuse(graph, core, context) or not _are_alike([*core, *apart], context):
        return False
    if not has_kernel(graph, context, node, "MultiHeadAttention", known.element_type):
        return False
    _fuse(graph, core, scores, value)
    for heads in (scores.query, scores.key, value):
        _remove_unused(graph, heads.nodes)
    return True


def _are_alike(nodes: list[Node], context: TransformContext) -> bool:
    """Return True if the nodes are of one provider, and may be changed."""
    return same_provider(*nodes) and all(map(context.may_change, nodes))


def _is_repeated_per_query(graph: Graph, mask: str, scores: TensorType) -> bool:
    """Whether one row of the mask serves all queries, which onnxruntime's node wants repeated."""
    shape = known_shape(graph, mask)
    return shape is None or scores.shape is None or shape[-2] != scores.shape[-2]


def _fuse(graph: Graph, core: list[Node], scores: _Scores, value: Heads) -> None:
    last = core[-1]
    if last.op_type == "Transpose":  # it keeps its name, and gets the shape with the heads joined
        known = tensor_type(graph, last.outputs[0])
        assert known is not None
        assert known.shape is not None
        graph.set_type(
            last.outputs[0],
            TensorType(known.element_type, (*known.shape[:2], value.heads * value.size)),
        )
    inputs = [scores.query.value, scores.key.value, value.value]
    if scores.mask:
        inputs += ["", "", scores.mask]
    attributes = {"num_heads": Attribute("INT", value.heads), "scale": number(scores.scale)}
    replace_nodes(
        graph, core, "MultiHeadAttention", inputs, domain=MICROSOFT_DOMAIN, attributes=attributes
    )


def _remove_unused(graph: Graph, nodes: list[Node]) -> None:
    """Removes what split a factor's heads; only called where nobody else uses the factor."""
    for node in nodes:
        if not graph.has_node(node.index):
            continue
        if has_used_output(graph, node.outputs):
            return
        graph.remove_node(node)


def _is_matmul(node: Node) -> bool:
    return node.domain == ONNX_DOMAIN and node.op_type == "MatMul"


def _is_over_keys(node: Node, rank: int) -> bool:
    default = -1 if node.since_version >= _FIRST_VERSION_WITH_OWN_AXIS else 1
    # Before version 13 softmax went over all dimensions from its axis on: the same for the last
    # one.
    return rank == 4 and node.attribute("axis", default) in (-1, rank - 1)


def _match_scores(graph: Graph, value: str) -> _Scores | None:
    addition = made_by(graph, value, "Add")
    if addition is None:
        return _match_product(graph, value, "", [])
    for slot in (0, 1):
        mask = addition.inputs[1 - slot]
        if fits_scores(known_shape(graph, mask), known_shape(graph, addition.inputs[slot])):
            found = _match_product(graph, addition.inputs[slot], mask, [addition])
            if found is not None:
                return found
    return None


def _match_product(graph: Graph, value: str, mask: str, nodes: list[Node]) -> _Scores | None:
    value, factor, between = scaled(graph, value)
    product = made_by(graph, value, "MatMul")
    if product is None:
        return None
    query, key = (
        match_heads(graph, product.inputs[0]),
        match_heads(graph, product.inputs[1], transposed=True),
    )
    if query is None or key is None or (query.heads, query.size) != (key.heads, key.size):
        return None
    scale = factor * query.factor * key.factor
    if not math.isfinite(scale) or scale == 0:  # 0 means the default
        return None
    return _Scores(query=query, key=key, mask=mask, scale=scale, nodes=[*nodes, *between, product])


def _fit(graph: Graph, scores: _Scores, value: Heads) -> bool:
    """Whether batches and lengths surely agree: the fused node does not broadcast."""
    query, key, own = (
        known_shape(graph, heads.value) for heads in (scores.query, scores.key, value)
    )
    if query is None or key is None or own is None or scores.key.heads != value.heads:
        return False
    return query[0] == key[0] == own[0] and key[1] == own[1]


ATTENTION_FUSION = RewriteRule(
    name="attention-fusion", op_types=frozenset({"Softmax"}), rewrite=_rewrite
)
