"""BERT-base with random weights, written out in ONNX: nothing but onnx and numpy makes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_OPSET = 20
_IR_VERSION = 10
_VOCABULARY = 30_522
_POSITIONS = 512
_MASKED = -1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class BertSize:
    """Of Devlin et al. 2018: base.

    Attributes:
        layers, features, heads: of the encoder; a layer's hidden features are four times as many.
        tokens: of a text.
    """

    layers: int = 12
    features: int = 768
    heads: int = 12
    tokens: int = 128


@dataclass
class _Graph:
    generator: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[TensorProto] = field(default_factory=list)

    def add(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], **attributes))
        return name

    def constant(self, value: object, dtype: type = np.float32) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def random(self, *shape: int) -> str:
        """Weights that keep activations in bounds."""
        scale = 1 / np.sqrt(shape[0])
        return self.constant(self.generator.standard_normal(shape, np.float32) * scale)

    def dense(self, value: str, inputs: int, outputs: int) -> str:
        product = self.add("MatMul", value, self.random(inputs, outputs))
        return self.add("Add", product, self.random(outputs))

    def normalized(self, value: str, features: int) -> str:
        ones, zeros = self.constant(np.ones(features)), self.constant(np.zeros(features))
        return self.add("LayerNormalization", value, ones, zeros, axis=-1)


def bert(size: BertSize, *, seed: int) -> onnx.ModelProto:
    """``input_ids`` and ``attention_mask``, int64[1, tokens], to ``last_hidden_state``."""
    graph = _Graph(np.random.default_rng(seed))
    value = _embedded(graph, size)
    mask = _added_mask(graph)
    for _ in range(size.layers):
        attended = graph.add("Add", value, _attention(graph, size, value, mask))
        value = graph.normalized(attended, size.features)
        hidden = graph.add("Gelu", graph.dense(value, size.features, 4 * size.features))
        back = graph.dense(hidden, 4 * size.features, size.features)
        value = graph.normalized(graph.add("Add", value, back), size.features)
    graph.nodes.append(helper.make_node("Identity", [value], ["last_hidden_state"]))
    text = [1, size.tokens]
    return helper.make_model(
        helper.make_graph(
            graph.nodes,
            "bert",
            [
                helper.make_tensor_value_info(name, TensorProto.INT64, text)
                for name in ("input_ids", "attention_mask")
            ],
            [
                helper.make_tensor_value_info(
                    "last_hidden_state", TensorProto.FLOAT, [*text, size.features]
                )
            ],
            graph.weights,
        ),
        opset_imports=[helper.make_opsetid("", _OPSET)],
        ir_version=_IR_VERSION,
    )


def _embedded(graph: _Graph, size: BertSize) -> str:
    words = graph.add("Gather", graph.random(_VOCABULARY, size.features), "input_ids")
    places = graph.constant(np.arange(size.tokens), np.int64)
    positions = graph.add("Gather", graph.random(_POSITIONS, size.features), places)
    return graph.normalized(graph.add("Add", words, positions), size.features)


def _added_mask(graph: _Graph) -> str:
    """0 where a token is, a large negative number where none is: [1, 1, 1, tokens]."""
    shown = graph.add("Cast", "attention_mask", to=TensorProto.FLOAT)
    hidden = graph.add("Sub", graph.constant(1.0), shown)
    large = graph.add("Mul", hidden, graph.constant(_MASKED))
    return graph.add("Unsqueeze", large, graph.constant([1, 2], np.int64))


def _attention(graph: _Graph, size: BertSize, value: str, mask: str) -> str:
    each = size.features // size.heads
    split = graph.constant([1, size.tokens, size.heads, each], np.int64)

    def projected(*order: int) -> str:
        dense = graph.dense(value, size.features, size.features)
        return graph.add("Transpose", graph.add("Reshape", dense, split), perm=order)

    queries, keys, values = projected(0, 2, 1, 3), projected(0, 2, 3, 1), projected(0, 2, 1, 3)
    products = graph.add("MatMul", queries, keys)
    scaled = graph.add("Mul", products, graph.constant(1 / np.sqrt(each)))
    shares = graph.add("Softmax", graph.add("Add", scaled, mask), axis=-1)
    mixed = graph.add("Transpose", graph.add("MatMul", shares, values), perm=[0, 2, 1, 3])
    whole = graph.constant([1, size.tokens, size.features], np.int64)
    return graph.dense(graph.add("Reshape", mixed, whole), size.features, size.features)
