"""Describes in one word how a model is quantized, from its operators and their operand types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import prod

import onnx

from ortpkg.graph.types import ElementType

_DYNAMIC_OPERATORS = frozenset({
    "DynamicQuantizeLinear", "MatMulInteger", "ConvInteger", "DynamicQuantizeMatMul",
    "DynamicQuantizeLSTM", "MatMulIntegerToFloat",
})  # fmt: skip
_QUANTIZED_OPERATORS = frozenset({
    "QLinearConv", "QLinearMatMul", "QLinearAdd", "QLinearMul", "QLinearSigmoid",
    "QLinearLeakyRelu", "QLinearSoftmax", "QLinearAveragePool", "QLinearGlobalAveragePool",
    "QLinearConcat", "QGemm", "QAttention", "QEmbedLayerNormalization",
})  # fmt: skip
_BLOCKWISE_BITS = {
    "MatMulNBits": ("bits", 4),
    "MatMulBnb4": ("", 4),
    "GatherBlockQuantized": ("bits", 4),
    "QMoE": ("expert_weight_bits", 4),
}
_QUANTIZING_OPERATORS = frozenset({"QuantizeLinear", "DequantizeLinear"})
_FLOAT_TYPES = {
    ElementType.FLOAT16: "fp16",
    ElementType.BFLOAT16: "bf16",
    ElementType.DOUBLE: "fp64",
}


class QuantizationWord:
    """The quantization of a model as a word, from its nodes and tensors added one by one."""

    def __init__(self) -> None:
        self._operators: set[str] = set()
        #: Nodes that the word can depend on.
        self._nodes: list[onnx.NodeProto] = []
        self._tensor_types: dict[str, int] = {}
        #: Element type → number of elements in all tensors of that type.
        self._sizes: Counter[int] = Counter()

    def add_node(self, node: onnx.NodeProto) -> None:
        """Add a node of any graph of the model."""
        op_type = node.op_type
        self._operators.add(op_type)
        if op_type in _BLOCKWISE_BITS or op_type in _QUANTIZING_OPERATORS:
            self._nodes.append(node)
        elif op_type == "Constant" and node.output:
            for attribute in node.attribute:
                if attribute.name == "value":
                    self._tensor_types[node.output[0]] = attribute.t.data_type

    def add_tensor(self, tensor: onnx.TensorProto) -> None:
        """Add a tensor of the model."""
        if tensor.name:
            self._tensor_types[tensor.name] = tensor.data_type
        self._sizes[tensor.data_type] += prod(tensor.dims)

    def word(self) -> str:
        """Return the most specific word for the quantization of the model.

        One of ``int4-blockwise`` (any bit width), ``qdq-int8``, ``qoperator-int8``,
        ``dynamic-int8``, ``weight-int8`` (any type), ``fp16``, ``bf16``, ``fp64``, ``none``.
        """
        bits = [_bits(node) for node in self._nodes if node.op_type in _BLOCKWISE_BITS]
        bits += [
            _dequantized_bits(node, self._tensor_types)
            for node in self._nodes
            if _is_blockwise_dequantize(node)
        ]
        if bits:
            return f"int{min(bits)}-blockwise"
        if self._operators & _QUANTIZED_OPERATORS:
            return "qoperator-int8"
        if self._operators & _DYNAMIC_OPERATORS:
            return "dynamic-int8"
        kinds = Counter(_quantized_type(node, self._tensor_types) for node in self._nodes)
        if kinds:
            prefix = "qdq" if "QuantizeLinear" in self._operators else "weight"
            return f"{prefix}-{min(kinds, key=lambda kind: (-kinds[kind], kind))}"
        return _float_kind(self._sizes)


def _attribute_int(node: onnx.NodeProto, name: str, default: int) -> int:
    return next(
        (int(attribute.i) for attribute in node.attribute if attribute.name == name), default
    )


def _bits(node: onnx.NodeProto) -> int:
    name, default = _BLOCKWISE_BITS[node.op_type]
    return _attribute_int(node, name, default)


def _is_blockwise_dequantize(node: onnx.NodeProto) -> bool:
    return node.op_type == "DequantizeLinear" and _attribute_int(node, "block_size", 0) > 0


def _dequantized_bits(node: onnx.NodeProto, tensor_types: Mapping[str, int]) -> int:
    name = _quantized_type(node, tensor_types)
    digits = "".join(character for character in name.removeprefix("float") if character.isdigit())
    return int(digits[:2] if digits.startswith("16") else digits[:1])


def _quantized_type(node: onnx.NodeProto, tensor_types: Mapping[str, int]) -> str:
    """Return "int8" (signed or not), "int4", "int16", "float8", ...

    It is "int8" unless the model has another type.
    """
    operands = [node.input[2]] if len(node.input) > 2 else []
    if node.op_type == "DequantizeLinear":
        operands += node.input[:1]
    number = next((tensor_types[name] for name in operands if name in tensor_types), 0)
    number = number or _attribute_int(node, "output_dtype", 0)
    name = next((kind.name.lower() for kind in ElementType if kind == number and number), "int8")
    if name.startswith("float"):
        return name.split("e")[0]
    return name.removeprefix("u")


def _float_kind(sizes: Mapping[int, int]) -> str:
    """Return the float type of most weights."""
    floats = [ElementType.FLOAT, *_FLOAT_TYPES]
    most = max(floats, key=lambda kind: sizes[kind])
    return _FLOAT_TYPES.get(most, "none")
