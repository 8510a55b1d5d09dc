"""LayerNormalization and RMS normalization written out in steps become one node.

Source: onnxruntime's LayerNormFusion and SimplifiedLayerNormFusion. ai.onnx has LayerNormalization
since version 17 and RMSNormalization since 23; before, the nodes are those that onnxruntime adds to
the operators: LayerNormalization of the main domain in version 1, and SimplifiedLayerNormalization.
"""

from __future__ import annotations

from ortpkg.engine.transformers.norm_patterns import (
    RootMeanSquare,
    as_row,
    match_mean,
    match_root_mean_square,
    ones,
    scale_and_shift,
)
from ortpkg.engine.transformers.patterns import has_kernel, made_by, may_fuse, number, same_shape
from ortpkg.engine.transformers.rewriting import known_shape, replace_nodes, tensor_type
from ortpkg.engine.transformers.transform_context import RewriteRule, TransformContext
from ortpkg.graph.graph import ONNX_DOMAIN, Attribute, Graph, Node

_FIRST_OPSET_WITH_RMS = 23


def _rewrite(graph: Graph, node: Node, context: TransformContext) -> bool:
    root = match_root_mean_square(graph, node)
    if root is None or root.squared != root.numerator:
        return False
    centring = _centring(graph, root)
    x = root.numerator if centring is None else centring[0].inputs[0]
    # The centred value may be used elsewhere, or be no difference from its mean: then it is RMS of
    # that value.
    if centring is not None and _fuse(graph, node, root, centring, x, context):
        return True
    return _fuse(graph, node, root, [], root.numerator, context)


def _centring(graph: Graph, root: RootMeanSquare) -> list[Node] | None:
    """The nodes that subtract the mean, the subtraction first."""
    difference = made_by(graph, root.numerator, "Sub")
    mean = None if difference is None else match_mean(graph, difference.inputs[1])
    if difference is None or mean is None or mean.inputs[0] != difference.inputs[0]:
        return None
    return [difference, mean]


def _fuse(
    graph: Graph,
    node: Node,
    root: RootMeanSquare,
    centring: list[Node],
    x: str,
    context: TransformContext,
) -> bool:
    known = tensor_type(graph, node.outputs[0])
    if known is None or not same_shape(known.shape, known_shape(graph, x)) or not known.shape:
        return False
    inner = [*centring, *root.nodes, node]
    behind, scale, shift = scale_and_shift(graph, node, x)
    if not centring:
        behind, shift = behind[:1], ""
    op_type = _operator(graph, is_centred=bool(centring))
    nodes = [*inner, *behind]
    if not may_fuse(graph, nodes, context):
        return False
    if not has_kernel(graph, context, node, op_type, known.element_type, domain=ONNX_DOMAIN):
        return False
    scale_row = as_row(graph, scale) if scale else ones(graph, known.shape[-1], known.element_type)
    if scale_row is None:
        return False
    attributes = {"axis": Attribute("INT", -1), "epsilon": number(root.epsilon)}
    inputs = [x, scale_row, as_row(graph, shift)] if shift else [x, scale_row]
    replace_nodes(graph, nodes, op_type, inputs, attributes=attributes)
    return True


def _operator(graph: Graph, *, is_centred: bool) -> str:
    if is_centred:
        return "LayerNormalization"
    has_rms = graph.opset_imports.get(ONNX_DOMAIN, 0) >= _FIRST_OPSET_WITH_RMS
    return "RMSNormalization" if has_rms else "SimplifiedLayerNormalization"


LAYER_NORMALIZATION_FUSION = RewriteRule(
    name="layer-normalization-fusion", op_types=frozenset({"Div", "Mul"}), rewrite=_rewrite
)
