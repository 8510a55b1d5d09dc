"""A sum of two tensors (and a bias) before a normalization becomes SkipLayerNormalization.

Where the sum goes on to other nodes, as in pre-norm transformers, it is the fused node's fourth
output. RMS normalizations become SkipSimplifiedLayerNormalization.
"""

from __future__ import annotations

from ortpkg.engine.transformers.norm_patterns import as_row, row_parameter
from ortpkg.engine.transformers.patterns import has_kernel, made_by, may_fuse, number, same_shape
from ortpkg.engine.transformers.rewriting import (
    has_used_output,
    known_shape,
    replace_nodes,
    sole_consumed_producer,
    tensor_type,
)
from ortpkg.engine.transformers.transform_context import RewriteRule, TransformContext
from ortpkg.graph.graph import MICROSOFT_DOMAIN, ONNX_DOMAIN, Graph, Node

_NAMES = {
    "LayerNormalization": "SkipLayerNormalization",
    "RMSNormalization": "SkipSimplifiedLayerNormalization",
    "SimplifiedLayerNormalization": "SkipSimplifiedLayerNormalization",
}
_DEFAULT_EPSILON = 1e-5
_RANKS = (2, 3)


def _rewrite(graph: Graph, node: Node, context: TransformContext) -> bool:
    x = node.inputs[0]
    addition, known = made_by(graph, x, "Add"), tensor_type(graph, x)
    if addition is None or known is None or not _normalizes_rows(graph, node):
        return False
    if not all(same_shape(known.shape, known_shape(graph, operand)) for operand in addition.inputs):
        return False
    nodes, operands, bias = [addition, node], addition.inputs, ""
    if biased := _biased_operand(graph, addition, x):
        inner, slot, bias = biased
        nodes = [inner, addition, node]
        before = inner.inputs[1 - inner.inputs.index(bias)]
        operands = (before, addition.inputs[1 - slot])
    keeps_sum = graph.is_output(x) or graph.use_count(x) > 1
    op_type = _NAMES[node.op_type]
    if not _may_fuse(graph, nodes, context) or not has_kernel(
        graph, context, node, op_type, known.element_type
    ):
        return False
    inputs, bias = [*operands, *node.inputs[1:3]], bias and as_row(graph, bias)
    if bias and op_type == "SkipLayerNormalization":
        inputs = [*(*inputs, "")[:4], bias]
    elif bias:
        inputs.append(bias)
    attributes = {"epsilon": number(node.attribute("epsilon", _DEFAULT_EPSILON))}
    outputs = (node.outputs[0], "", "", x) if keeps_sum else node.outputs[:1]
    replace_nodes(
        graph,
        nodes,
        op_type,
        inputs,
        domain=MICROSOFT_DOMAIN,
        attributes=attributes,
        outputs=outputs,
    )
    return True


def _biased_operand(graph: Graph, addition: Node, like: str) -> tuple[Node, int, str] | None:
    """The first operand that is a sum with a bias: the node that adds, the slot, and the bias."""
    for slot in (0, 1):
        inner = sole_consumed_producer(graph, addition.inputs[slot], "Add")
        if found := row_parameter(graph, inner, "Add", like):
            return found[0], slot, found[1]
    return None


def _may_fuse(graph: Graph, nodes: list[Node], context: TransformContext) -> bool:
    """The sum may have other uses: it stays, as an output of the fused node."""
    *inner, addition, node = nodes
    return (
        may_fuse(graph, [*inner, addition], context)
        and may_fuse(graph, [node], context)
        and (addition.execution_provider == node.execution_provider)
    )


def _normalizes_rows(graph: Graph, node: Node) -> bool:
    """Whether it normalizes the last axis with scale and shift per column, into one used output.

    The fused operator takes tensors of two or three dimensions.
    """
    shape = known_shape(graph, node.inputs[0])
    if (
        shape is None
        or len(shape) not in _RANKS
        or has_used_output(graph, node.outputs[1:])
        or node.attribute("stash_type", 1) != 1
    ):
        return False
    if node.attribute("axis", -1) not in (-1, len(shape) - 1):
        return False
    return all(
        known_shape(graph, parameter) == shape[-1:] for parameter in node.inputs[1:] if parameter
    )


SKIP_LAYER_NORMALIZATION_FUSION = RewriteRule(
    name="skip-layer-normalization-fusion",
    op_types=frozenset(_NAMES),
    rewrite=_rewrite,
    domains=frozenset({ONNX_DOMAIN, MICROSOFT_DOMAIN}),
)
