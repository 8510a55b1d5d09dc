"""com.microsoft operators that OpenVINO converts but computes otherwise, or fails over.

Seen in OpenVINO 2026.4.1's CPU plug-in, held against onnxruntime 1.31. What it refuses to convert
needs no entry: that shows when it compiles. Nothing here loads OpenVINO.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.needed_operators import MICROSOFT_DOMAIN
from ortpkg.graph.types import TensorType

#: What is wrong with a node of one operator; "" where nothing is known to be.
_Judge = Callable[[Graph, Node], str]

_FUSED_GEMM_ACTIVATIONS = ("LeakyRelu", "Relu")
_MAT_MUL_GROUPS = 4
_PAST_SLOTS = (6, 7)
_ROTARY_POSITIONS = 1


def openvino_fault(graph: Graph, node: Node) -> str:
    """What OpenVINO gets wrong of the node, or of one inside it; "" where nothing is known."""
    judge = _JUDGES.get(node.op_type) if node.domain == MICROSOFT_DOMAIN else None
    if judge is not None and (fault := judge(graph, node)):
        return f"it would get {node.domain}:{node.op_type} wrong: {fault}"
    inside = (
        openvino_fault(inner, each) for inner in node.subgraphs.values() for each in inner.nodes
    )
    return next(filter(None, inside), "")


def _grouped_attention(graph: Graph, node: Node) -> str:
    del graph, node
    return "it knows a batch of 1 only, and caches as long as what is in them"


def _saturation(graph: Graph, node: Node) -> str:
    del graph, node
    return "what is out of the range of 8 bits wraps around"


def _average_pool(graph: Graph, node: Node) -> str:
    is_last = node.attribute("channels_last", 0)
    return (
        "it takes channels that come last for an axis of the picture"
        if is_last
        else _saturation(graph, node)
    )


def _fused_gemm(graph: Graph, node: Node) -> str:
    del graph
    activation = node.attribute("activation", "")
    return (
        ""
        if activation in _FUSED_GEMM_ACTIVATIONS
        else f"it leaves out the activation {activation}"
    )


def _fused_mat_mul(graph: Graph, node: Node) -> str:
    del graph
    names = [name for name in ("transBatchA", "transBatchB") if node.attribute(name, 0)]
    return f"it leaves out {' and '.join(names)}" if names else ""


def _attention(graph: Graph, node: Node) -> str:
    del graph
    names = [name for name in ("mask_filter_value", "scale") if node.attribute(name) is not None]
    return f"it leaves out {' and '.join(names)}" if names else ""


def _multi_head_attention(graph: Graph, node: Node) -> str:
    del graph
    has_past = any(node.inputs[slot : slot + 1] not in ((), ("",)) for slot in _PAST_SLOTS)
    return (
        "it attends to past keys whose present is not asked for"
        if has_past and not any(node.outputs[1:])
        else ""
    )


def _mat_mul_n_bits(graph: Graph, node: Node) -> str:
    del graph
    has_groups = node.inputs[_MAT_MUL_GROUPS : _MAT_MUL_GROUPS + 1] not in ((), ("",))
    return "g_idx ends the process, or is read as something else" if has_groups else ""


def _rotary_embedding(graph: Graph, node: Node) -> str:
    if node.attribute("rotary_embedding_dim", 0):
        return "it turns all of a head where rotary_embedding_dim says a part"
    positions = graph.type_of(node.inputs[_ROTARY_POSITIONS])
    shape = positions.shape if isinstance(positions, TensorType) else None
    return (
        ""
        if shape is not None and len(shape) > 1
        else "it takes the first position for that of every token"
    )


_JUDGES: Mapping[str, _Judge] = {
    "Attention": _attention,
    "FusedGemm": _fused_gemm,
    "FusedMatMul": _fused_mat_mul,
    "GroupQueryAttention": _grouped_attention,
    "MatMulNBits": _mat_mul_n_bits,
    "MultiHeadAttention": _multi_head_attention,
    "QLinearAdd": _saturation,
    "QLinearAveragePool": _average_pool,
    "QLinearConcat": _saturation,
    "QLinearLeakyRelu": _saturation,
    "QLinearMul": _saturation,
    "RotaryEmbedding": _rotary_embedding,
}
