"""Share of a model's weights that are stored, or multiplied, in few bits."""

from __future__ import annotations

from math import prod

import onnx

from ortpkg.graph.types import ElementType

_FEW_BITS = frozenset({
    kind.value for kind in ElementType
    if kind.name.lower().startswith(("int8", "uint8", "int4", "uint4", "int2", "uint2", "float8",
                                     "float4"))
})  # fmt: skip
_FLOATS = frozenset({
    ElementType.FLOAT.value, ElementType.FLOAT16.value, ElementType.BFLOAT16.value,
    ElementType.DOUBLE.value,
})  # fmt: skip
_QUANTIZING_OPERATORS = frozenset({"QuantizeLinear", "DequantizeLinear"})
#: Operators with several numbers in each byte of their second input → bits of one, by default.
_PACKED_BITS = {"MatMulNBits": 4, "MatMulBnb4": 4}
#: Elements of the smallest tensor that is a weight.
_LEAST_SIZE = 2


class WeightShares:
    """Sizes of a model's weights by kind, from its nodes and tensors added one by one.

    Tensors of one element, scales and zero points are no weights. Float tables that Gather reads
    are looked up without rounding, so that they do not count either.
    """

    def __init__(self) -> None:
        #: Name → element type, number of elements.
        self._tensors: dict[str, tuple[int, int]] = {}
        #: Values that DequantizeLinear makes of what the model computes.
        self._activations: set[str] = set()
        #: Scales, zero points and tables.
        self._exact: set[str] = set()
        #: Floats that are quantized as the model runs, or multiplied with quantized activations.
        self._quantized: set[str] = set()
        #: Name of a tensor of packed numbers → how many are in each element.
        self._packed: dict[str, int] = {}

    def add_node(self, node: onnx.NodeProto) -> None:
        """Add a node of any graph of the model, after that graph and the nodes that it reads.

        A Constant is the tensor that it holds.
        """
        names = list(node.input)
        if node.op_type == "Constant":
            self._add_constant(node)
        elif node.op_type in _QUANTIZING_OPERATORS:
            self._exact.update(names[1:])
            self._quantized.update(name for name in names[:1] if name in self._tensors)
            if node.op_type == "DequantizeLinear" and names and names[0] not in self._tensors:
                self._activations.update(node.output)
        elif node.op_type == "Gather":
            self._exact.update(names[:1])
        elif not self._activations.isdisjoint(names):
            self._quantized.update(name for name in names if name in self._tensors)
        if node.op_type in _PACKED_BITS and len(names) > 1:
            self._packed[names[1]] = max(1, 8 // _bits(node))

    def add_initializers(self, graph: onnx.GraphProto) -> None:
        """Add the weights of a graph, without those of its sub-graphs."""
        for tensor in graph.initializer:
            self._add(tensor.name, tensor)

    def few_bits_share(self) -> float | None:
        """Return the share, by number of elements, of weights in at most 8 bits.

        Float weights count as such where QuantizeLinear reads them, or where a node multiplies
        them with quantized activations. None if the model has no weights.
        """
        few = total = 0
        for name, (kind, size) in self._tensors.items():
            is_few = kind in _FEW_BITS or name in self._quantized
            if size < _LEAST_SIZE or not (is_few or (kind in _FLOATS and name not in self._exact)):
                continue
            count = size * self._packed.get(name, 1)
            total += count
            few += count if is_few else 0
        return few / total if total else None

    def _add(self, name: str, tensor: onnx.TensorProto) -> None:
        self._tensors[name] = (tensor.data_type, prod(tensor.dims))

    def _add_constant(self, node: onnx.NodeProto) -> None:
        for attribute in node.attribute:
            if attribute.name == "value" and node.output:
                self._add(node.output[0], attribute.t)


def _bits(node: onnx.NodeProto) -> int:
    default = _PACKED_BITS[node.op_type]
    bits = next((int(a.i) for a in node.attribute if a.name == "bits"), default)
    return bits if bits > 0 else default
