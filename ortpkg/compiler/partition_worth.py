"""Decides whether compiling a partition saves more time than calling it costs.

The alternative to compiled code is the numpy kernels, node by node. A node makes several calls of
numpy there; each has a fixed cost and passes over memory once. Compiled code is one call for all
nodes, which binds sizes, allocates outputs and passes addresses, and about one pass over memory.
Matrix products take as long in either. The times were measured on an idle server core; only their
ratio matters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.types import TensorType

#: Fixed cost of a call of a compiled partition.
_BORDER_NS = 12_000
#: Fixed cost of a call of numpy, with the kernel around it.
_CALL_NS = 1_500
#: Cost of a pass over memory, per element: in numpy, and in compiled code.
_PASS_NS, _FUSED_PASS_NS = 0.25, 0.1
#: Assumed size of a dimension that is known only at run time.
_NOMINAL_SIZE = 64
#: Calls of numpy for an operator that is not in the table.
_SIMPLE_CALLS = 1
#: Operator → approximate number of numpy calls in its kernel.
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
    """Return why compiling these nodes as one partition does not pay; None if it does."""
    saved_ns = sum(_saved_ns(graph, node) for node in nodes)
    if saved_ns >= _BORDER_NS:
        return None
    return (
        f"compiled, it and its neighbours would save {saved_ns / 1000:.0f} microseconds of numpy's"
        f" time, and a call of compiled code takes {_BORDER_NS / 1000:.0f}"
    )


def _saved_ns(graph: Graph, node: Node) -> float:
    """Return the nanoseconds that compiled code saves for a node, compared with numpy's kernels."""
    calls = _CALLS.get(node.op_type, _SIMPLE_CALLS)
    elements = max((_element_count(graph, value) for value in node.outputs if value), default=0)
    return calls * _CALL_NS + (calls * _PASS_NS - _FUSED_PASS_NS) * elements


def _element_count(graph: Graph, value: str) -> int:
    value_type = graph.type_of(value)
    if not isinstance(value_type, TensorType) or value_type.shape is None:
        return _NOMINAL_SIZE
    return prod(size if isinstance(size, int) else _NOMINAL_SIZE for size in value_type.shape)
