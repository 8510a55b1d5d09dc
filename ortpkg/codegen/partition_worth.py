"""Whether a partition saves more than its border costs, where a model is cut into pieces.

The other way to run its nodes are numpy's kernels, one after another. A node takes some calls of
numpy's library there, each with a time of its own and a pass over memory; compiled code takes one
call for all nodes, which binds sizes, allocates outputs and hands over addresses, and passes over
memory about once. Products take as long in either. Times are of a server's core in a quiet hour; it
is their ratio that decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.types import TensorType

#: A call of a compiled partition, whatever it computes.
_BORDER_NS = 12_000
#: A call of numpy's library, and of the kernel around it.
_CALL_NS = 1_500
#: A pass over memory, for each element: in numpy, and of compiled code.
_PASS_NS, _FUSED_PASS_NS = 0.25, 0.1
#: What a size counts as that only a run can tell.
_NOMINAL_SIZE = 64
#: Nodes that are one call, or a view.
_SIMPLE_CALLS = 1
#: Operator → calls of numpy's library in its kernel, about.
_CALLS: Mapping[str, int] = {
    "Attention": 16,
    "AveragePool": 12,
    "BatchNormalization": 4,
    "Conv": 16,
    "ConvInteger": 16,
    "ConvTranspose": 16,
    "DequantizeLinear": 3,
    "DynamicQuantizeLinear": 8,
    "Erf": 12,
    "FastGelu": 8,
    "GRU": 100,
    "Gelu": 14,
    "GlobalAveragePool": 3,
    "GroupNormalization": 8,
    "HardSigmoid": 3,
    "HardSwish": 4,
    "InstanceNormalization": 8,
    "LSTM": 100,
    "LayerNormalization": 8,
    "LogSoftmax": 6,
    "MatMulInteger": 4,
    "MaxPool": 12,
    "MultiHeadAttention": 16,
    "QLinearConv": 20,
    "QLinearMatMul": 8,
    "QuantizeLinear": 5,
    "QuickGelu": 4,
    "RMSNormalization": 6,
    "RNN": 100,
    "Resize": 20,
    "RotaryEmbedding": 10,
    "Sigmoid": 4,
    "SimplifiedLayerNormalization": 6,
    "SkipLayerNormalization": 9,
    "Softmax": 5,
    "Softplus": 4,
}


def reason_against_piece(graph: Graph, nodes: Iterable[Node]) -> str | None:
    """Why nodes of a model that is cut anyway are not compiled together; None where it pays."""
    saved_ns = sum(_saved_ns(graph, node) for node in nodes)
    if saved_ns >= _BORDER_NS:
        return None
    return (
        f"compiled, it and its neighbours would save {saved_ns / 1000:.0f} microseconds of numpy's"
        f" time, and a call of compiled code takes {_BORDER_NS / 1000:.0f}"
    )


def _saved_ns(graph: Graph, node: Node) -> float:
    """Return the nanoseconds that compiled code saves for a node, beside numpy's kernels."""
    calls = _CALLS.get(node.op_type, _SIMPLE_CALLS)
    elements = max((_element_count(graph, value) for value in node.outputs if value), default=0)
    return calls * _CALL_NS + (calls * _PASS_NS - _FUSED_PASS_NS) * elements


def _element_count(graph: Graph, value: str) -> int:
    found = graph.type_of(value)
    if not isinstance(found, TensorType) or found.shape is None:
        return _NOMINAL_SIZE
    return prod(size if isinstance(size, int) else _NOMINAL_SIZE for size in found.shape)
