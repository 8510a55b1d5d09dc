"""Models that reports are measured and looked at with: a BERT as exporters write it, a long chain.

Their weights are small, which a page does not show; their nodes are as many as those of real ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper, numpy_helper

_OPSET = 16  # before LayerNormalization and Gelu: exporters wrote them as many nodes
_HEADS = 4
_HEAD_SIZE = 8
_HIDDEN = _HEADS * _HEAD_SIZE
_VOCABULARY = 64
_LABELS = ("negative", "neutral", "positive")


def bert_like_model(layers: int = 12) -> onnx.ModelProto:
    """A text classifier as torch's exporter writes it: 120 nodes a layer, names with scopes.

    Inputs: input_ids and attention_mask (int64, batch × sequence). Output: label, a word for each
    text, which compilers leave to the CPU.
    """
    graph = _Exported()
    x = graph.embeddings()
    mask = graph.additive_mask()
    for number in range(layers):
        x = graph.layer(f"/encoder/layer.{number}", x, mask)
    graph.label(x)
    names = [("input_ids", TensorProto.INT64), ("attention_mask", TensorProto.INT64)]
    proto = helper.make_graph(
        graph.nodes,
        "main_graph",
        [
            helper.make_tensor_value_info(each, type_, ["batch", "sequence"])
            for each, type_ in names
        ],
        [helper.make_tensor_value_info("label", TensorProto.STRING, ["batch"])],
        graph.initializers,
    )
    return helper.make_model(
        proto,
        opset_imports=[helper.make_opsetid("", _OPSET)],
        ir_version=8,
        producer_name="pytorch",
    )


def chain_model(nodes: int) -> onnx.ModelProto:
    """So many nodes in blocks of twenty, each with a way round it, under scopes of a hundred."""
    operators = ("Relu", "Tanh", "Sigmoid", "Neg", "Abs")
    made, last, way_round = [], "x", "x"
    for number in range(nodes):
        is_joint = number % 20 == 19
        output = "y" if number == nodes - 1 else f"v{number}"
        made.append(
            helper.make_node(
                "Add" if is_joint else operators[number % len(operators)],
                [last, way_round] if is_joint else [last],
                [output],
                name=f"/stage.{number // 1000}/block.{number // 100 % 10}/step_{number}",
            )
        )
        last, way_round = output, output if is_joint else way_round
    graph = helper.make_graph(
        made,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=8)


@dataclass
class _Exported:
    """A graph in the making; values are called as torch's exporter calls them."""

    nodes: list[NodeProto] = field(default_factory=list)
    initializers: list[TensorProto] = field(default_factory=list)
    _counts: dict[str, int] = field(default_factory=dict)
    _random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(17))

    def node(
        self,
        scope: str,
        op_type: str,
        inputs: Sequence[str],
        output: str = "",
        **attributes: Any,
    ) -> str:
        """Appends a node of one output, and gives that output's name."""
        name = f"{scope.rstrip('/')}/{op_type}"
        count = self._counts[name] = self._counts.get(name, -1) + 1
        name = f"{name}_{count}" if count else name
        output = output or f"{name}_output_0"
        self.nodes.append(helper.make_node(op_type, inputs, [output], name=name, **attributes))
        return output

    def constant(self, scope: str, value: NDArray[np.generic]) -> str:
        return self.node(scope, "Constant", [], value=numpy_helper.from_array(value))

    def scalar(self, scope: str, value: float) -> str:
        return self.constant(scope, np.array(value, dtype=np.float32))

    def weight(self, scope: str, kind: str, *shape: int) -> str:
        name = f"{scope.strip('/').replace('/', '.')}.{kind}"
        values = self._random.normal(0, 0.05, shape).astype(np.float32)
        self.initializers.append(numpy_helper.from_array(values, name))
        return name

    def embeddings(self) -> str:
        scope = "/embeddings"
        words = self.node(
            f"{scope}/word_embeddings",
            "Gather",
            [self.weight(f"{scope}/word_embeddings", "weight", _VOCABULARY, _HIDDEN), "input_ids"],
        )
        return self.layer_norm(f"{scope}/LayerNorm", words)

    def label(self, x: str) -> None:
        first = self.constant("/pooler", np.array(0, dtype=np.int64))
        token = self.node("/pooler", "Gather", [x, first], axis=1)
        pooled = self.node(
            "/pooler", "Tanh", [self.dense("/pooler/dense", token, _HIDDEN, _HIDDEN)]
        )
        logits = self.dense("/classifier", pooled, _HIDDEN, len(_LABELS))
        best = self.node("/", "ArgMax", [logits], axis=-1, keepdims=0)
        words = self.constant("/", np.array(_LABELS, dtype=object))
        self.node("/", "Gather", [words, best], output="label")

    def additive_mask(self) -> str:
        mask = "attention_mask"
        for axis in (1, 2):
            mask = self.node(
                "/", "Unsqueeze", [mask, self.constant("/", np.array([axis], dtype=np.int64))]
            )
        floats = self.node("/", "Cast", [mask], to=TensorProto.FLOAT)
        inverted = self.node("/", "Sub", [self.scalar("/", 1.0), floats])
        return self.node("/", "Mul", [inverted, self.scalar("/", -10000.0)])

    def layer(self, scope: str, x: str, mask: str) -> str:
        attended = self.attention(f"{scope}/attention/self", x, mask)
        x = self.residual(f"{scope}/attention/output", attended, x, _HIDDEN)
        wide = self.dense(f"{scope}/intermediate/dense", x, _HIDDEN, 2 * _HIDDEN)
        wide = self.gelu(f"{scope}/intermediate/intermediate_act_fn", wide)
        return self.residual(f"{scope}/output", wide, x, 2 * _HIDDEN)

    def attention(self, scope: str, x: str, mask: str) -> str:
        query, key, value = (
            self.heads(scope, self.dense(f"{scope}/{which}", x, _HIDDEN, _HIDDEN), permutation)
            for which, permutation in (
                ("query", [0, 2, 1, 3]),
                ("key", [0, 2, 3, 1]),
                ("value", [0, 2, 1, 3]),
            )
        )
        root = self.root_of_scale(scope, query)
        query = self.node(scope, "Mul", [query, self.node(scope, "Sqrt", [root])])
        key = self.node(scope, "Mul", [key, self.node(scope, "Sqrt", [root])])
        scores = self.node(scope, "MatMul", [query, key])
        scores = self.node(scope, "Add", [scores, mask])
        weights = self.node(scope, "Softmax", [scores], axis=-1)
        mixed = self.node(scope, "MatMul", [weights, value])
        mixed = self.node(scope, "Transpose", [mixed], perm=[0, 2, 1, 3])
        return self.reshape(scope, mixed, [_HIDDEN])

    def root_of_scale(self, scope: str, query: str) -> str:
        """1 / sqrt(head size), asked of the query itself; the scores are scaled by it."""
        shape = self.node(scope, "Shape", [query])
        ends = [self.constant(scope, np.array([end], dtype=np.int64)) for end in (-1, 2**63 - 1)]
        size = self.node(scope, "Slice", [shape, *ends])
        root = self.node(scope, "Sqrt", [self.node(scope, "Cast", [size], to=TensorProto.FLOAT)])
        one = self.constant(scope, np.array([1.0], dtype=np.float32))
        scale = self.node(scope, "Div", [one, root])
        return self.node(scope, "Cast", [scale], to=TensorProto.FLOAT)

    def heads(self, scope: str, x: str, permutation: list[int]) -> str:
        split = self.reshape(scope, x, [_HEADS, _HEAD_SIZE])
        return self.node(scope, "Transpose", [split], perm=permutation)

    def reshape(self, scope: str, x: str, tail: Sequence[int]) -> str:
        """Keeps the first two sizes, asked of the value itself as tracing does."""
        sizes = []
        for axis in (0, 1):
            shape = self.node(scope, "Shape", [x])
            index = self.constant(scope, np.array(axis, dtype=np.int64))
            size = self.node(scope, "Gather", [shape, index], axis=0)
            axes = self.constant(scope, np.array([0], dtype=np.int64))
            sizes.append(self.node(scope, "Unsqueeze", [size, axes]))
        sizes += [self.constant(scope, np.array([size], dtype=np.int64)) for size in tail]
        return self.node(scope, "Reshape", [x, self.node(scope, "Concat", sizes, axis=0)])

    def dense(self, scope: str, x: str, size: int, output_size: int) -> str:
        product = self.node(scope, "MatMul", [x, self.weight(scope, "weight", size, output_size)])
        return self.node(scope, "Add", [self.weight(scope, "bias", output_size), product])

    def residual(self, scope: str, x: str, beside: str, size: int) -> str:
        dense = self.dense(f"{scope}/dense", x, size, _HIDDEN)
        return self.layer_norm(f"{scope}/LayerNorm", self.node(scope, "Add", [dense, beside]))

    def layer_norm(self, scope: str, x: str) -> str:
        centred = self.node(scope, "Sub", [x, self.node(scope, "ReduceMean", [x], axes=[-1])])
        square = self.node(scope, "Pow", [centred, self.scalar(scope, 2.0)])
        variance = self.node(scope, "ReduceMean", [square], axes=[-1])
        variance = self.node(scope, "Add", [variance, self.scalar(scope, 1e-12)])
        scaled = self.node(scope, "Div", [centred, self.node(scope, "Sqrt", [variance])])
        scaled = self.node(scope, "Mul", [scaled, self.weight(scope, "weight", _HIDDEN)])
        return self.node(scope, "Add", [scaled, self.weight(scope, "bias", _HIDDEN)])

    def gelu(self, scope: str, x: str) -> str:
        inner = self.node(scope, "Div", [x, self.scalar(scope, 2.0**0.5)])
        inner = self.node(scope, "Erf", [inner])
        inner = self.node(scope, "Add", [inner, self.scalar(scope, 1.0)])
        product = self.node(scope, "Mul", [x, inner])
        return self.node(scope, "Mul", [product, self.scalar(scope, 0.5)])
