"""The two ONNX models, prefill and decode, over one set of weights.

prefill reads a prompt and makes the first new character and the cache of keys and values; decode
reads one character and the cache, and makes the next character and the longer cache. Sampling is
part of the models: to the logits of each position a fixed row of noise is added (Gumbel noise times
a temperature), so the same prompt always gives the same text, and not the most likely character
over and over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from scripts.tinychar.training import Shape, Weights

OPSET = 17
IR_VERSION = 8
NOISE = "noise"
WRITTEN = "written"
TEMPERATURE = 0.6
NOISE_SEED = 1623
#: Added to the scores of characters that are yet to come.
_FORBIDDEN = -1e9


def shared_weights(weights: Weights, shape: Shape) -> dict[str, npt.NDArray[np.float32]]:
    """The tensors of both models by name; matrices as they are multiplied from the right."""
    found: dict[str, npt.NDArray[np.float32]] = {}
    for name, array in weights.items():
        is_matrix = (
            name.endswith(".weight")
            and array.ndim == 2
            and not name.startswith(("tokens", "positions"))
        )
        found[name] = np.ascontiguousarray(array.T if is_matrix else array)
    found["head.weight"] = np.ascontiguousarray(weights["tokens.weight"].T)
    vocabulary = len(weights["tokens.weight"])
    uniform = np.random.default_rng(NOISE_SEED).uniform(1e-6, 1, (shape.context, vocabulary))
    found[NOISE] = (-np.log(-np.log(uniform)) * TEMPERATURE).astype(np.float32)
    return found


class _Builder:
    """Collects nodes and constants of one model."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}
        self.used: dict[str, None] = {}

    def constant(self, values: Sequence[int] | float, *, name: str) -> str:
        array = np.array(values, np.float32 if isinstance(values, float) else np.int64)
        self.constants.setdefault(name, numpy_helper.from_array(array, name))
        return name

    def weight(self, name: str) -> str:
        self.used[name] = None
        return name

    def node(self, op_type: str, *inputs: str, name: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op_type, list(inputs), [name], name=name, **attributes))
        return name

    def dense(self, x: str, layer: str, *, name: str) -> str:
        product = self.node("MatMul", x, self.weight(f"{layer}.weight"), name=f"{name}_product")
        return self.node("Add", product, self.weight(f"{layer}.bias"), name=name)

    def normalized(self, x: str, layer: str, *, name: str) -> str:
        scale, bias = self.weight(f"{layer}.weight"), self.weight(f"{layer}.bias")
        return self.node("LayerNormalization", x, scale, bias, name=name, axis=-1, epsilon=1e-5)

    def heads(self, x: str, *, name: str) -> str:
        """(1, length, width) → (heads, length, head width)."""
        shape = self.constant([-1, self.shape.heads, self.shape.head_width], name="heads_shape")
        split = self.node("Reshape", x, shape, name=f"{name}_split")
        return self.node("Transpose", split, name=name, perm=[1, 0, 2])

    def gelu(self, x: str, *, name: str) -> str:
        scaled = self.node(
            "Div", x, self.constant(float(np.sqrt(2)), name="sqrt_2"), name=f"{name}_scaled"
        )
        erf = self.node("Erf", scaled, name=f"{name}_erf")
        more = self.node("Add", erf, self.constant(1.0, name="one"), name=f"{name}_more")
        product = self.node("Mul", x, more, name=f"{name}_twice")
        return self.node("Mul", product, self.constant(0.5, name="half"), name=name)


def prefill_model(weights: Weights, shape: Shape) -> onnx.ModelProto:
    """tokens (1, prompt) → token (1, 1), cache (2 · layers, heads, prompt, head width)."""
    b = _Builder(shape)
    sizes = b.node("Shape", "tokens", name="token_sizes")
    length = b.node("Gather", sizes, b.constant([1], name="axis_1"), name="length", axis=0)
    zero = b.constant([0], name="zero")
    positions = b.node(
        "Slice", b.weight("positions.weight"), zero, length, zero, name="prompt_positions"
    )
    x = b.node(
        "Add",
        b.node("Gather", b.weight("tokens.weight"), "tokens", name="embedded"),
        positions,
        name="x",
    )
    mask = _causal_mask(b, length)
    x, cache = _blocks(b, x, past_of=None, mask=mask)
    last = b.node("Gather", x, b.constant(-1, name="last"), name="last_x", axis=1)
    row = b.node("Sub", length, b.constant([1], name="one_step"), name="noise_row")
    return _finish(b, "prefill", last, row, cache, weights)


def decode_model(weights: Weights, shape: Shape) -> onnx.ModelProto:
    """token (1, 1), cache (2 · layers, heads, past, width) → next token, longer cache."""
    b = _Builder(shape)
    sizes = b.node("Shape", "cache", name="cache_sizes")
    past = b.node("Gather", sizes, b.constant([2], name="axis_2"), name="past", axis=0)
    position = b.node("Gather", b.weight("positions.weight"), past, name="position", axis=0)
    x = b.node(
        "Add",
        b.node("Gather", b.weight("tokens.weight"), "token", name="embedded"),
        position,
        name="x",
    )
    x, cache = _blocks(b, x, past_of="cache", mask=None)
    last = b.node("Squeeze", x, b.constant([1], name="axis_1"), name="last_x")
    # The character that it read: collected, round by round, these are the text from its first
    # character on.
    b.node("Identity", "token", name=WRITTEN)
    return _finish(b, "decode", last, past, cache, weights)


def _causal_mask(b: _Builder, length: str) -> str:
    """(length, length): 0 where a character may look, a large negative number where it may not."""
    square = b.node("Concat", length, length, name="mask_shape", axis=0)
    ones = helper.make_tensor("value", TensorProto.FLOAT, [1], [_FORBIDDEN])
    full = b.node("ConstantOfShape", square, name="mask_full", value=ones)
    return b.node("Trilu", full, b.constant(1, name="above"), name="mask", upper=1)


def _blocks(b: _Builder, x: str, *, past_of: str | None, mask: str | None) -> tuple[str, str]:
    parts = []
    for layer in range(b.shape.layers):
        block = f"blocks.{layer}"
        normalized = b.normalized(x, f"{block}.norm1", name=f"n1_{layer}")
        qkv = b.dense(normalized, f"{block}.qkv", name=f"qkv_{layer}")
        b.nodes.append(
            helper.make_node(
                "Split",
                [qkv],
                [f"{part}_{layer}" for part in "qkv"],
                name=f"split_{layer}",
                axis=-1,
            )
        )
        q, k, v = (b.heads(f"{part}_{layer}", name=f"{part}h_{layer}") for part in "qkv")
        if past_of is not None:
            k = _with_past(b, k, past_of, 2 * layer, name=f"keys_{layer}")
            v = _with_past(b, v, past_of, 2 * layer + 1, name=f"values_{layer}")
        parts += [k, v]
        turned = b.node("Transpose", k, name=f"turned_{layer}", perm=[0, 2, 1])
        scores = b.node("MatMul", q, turned, name=f"scores_{layer}")
        scale = b.constant(float(1 / np.sqrt(b.shape.head_width)), name="scale")
        scores = b.node("Mul", scores, scale, name=f"scaled_{layer}")
        if mask is not None:
            scores = b.node("Add", scores, mask, name=f"masked_{layer}")
        attended = b.node(
            "MatMul",
            b.node("Softmax", scores, name=f"p_{layer}", axis=-1),
            v,
            name=f"attended_{layer}",
        )
        turned = b.node("Transpose", attended, name=f"joined_{layer}", perm=[1, 0, 2])
        wide = b.constant([1, -1, b.shape.width], name="wide_shape")
        joined = b.node("Reshape", turned, wide, name=f"wide_{layer}")
        x = b.node(
            "Add", x, b.dense(joined, f"{block}.project", name=f"o_{layer}"), name=f"x1_{layer}"
        )
        up = b.dense(
            b.normalized(x, f"{block}.norm2", name=f"n2_{layer}"), f"{block}.up", name=f"up_{layer}"
        )
        down = b.dense(b.gelu(up, name=f"gelu_{layer}"), f"{block}.down", name=f"down_{layer}")
        x = b.node("Add", x, down, name=f"x2_{layer}")
    axis = b.constant([0], name="zero")
    stacked = [
        b.node("Unsqueeze", part, axis, name=f"part_{number}") for number, part in enumerate(parts)
    ]
    return b.normalized(x, "norm", name="normalized"), b.node(
        "Concat", *stacked, name="new_cache", axis=0
    )


def _with_past(b: _Builder, new: str, past_of: str, number: int, *, name: str) -> str:
    index = b.constant(number, name=f"part_index_{number}")
    old = b.node("Gather", past_of, index, name=f"{name}_old", axis=0)
    return b.node("Concat", old, new, name=name, axis=1)


def _finish(
    b: _Builder, name: str, last: str, row: str, cache: str, weights: Weights
) -> onnx.ModelProto:
    logits = b.node("MatMul", last, b.weight("head.weight"), name="logits")
    noise = b.node("Gather", b.weight(NOISE), row, name="noise_of_position", axis=0)
    noisy = b.node("Add", logits, noise, name="noisy")
    next_name = "next_token"
    b.node("ArgMax", noisy, name=next_name, axis=-1, keepdims=1)
    shape = b.shape
    length, past = ("prompt", None) if name == "prefill" else ("past + 1", "past")
    full = [2 * shape.layers, shape.heads, None, shape.head_width]

    def cache_info(value: str, dimension: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(
            value, TensorProto.FLOAT, [dimension if size is None else size for size in full]
        )

    inputs = (
        [helper.make_tensor_value_info("tokens", TensorProto.INT64, [1, "prompt"])]
        if past is None
        else [
            helper.make_tensor_value_info("token", TensorProto.INT64, [1, 1]),
            cache_info("cache", past),
        ]
    )
    outputs = [
        helper.make_tensor_value_info(next_name, TensorProto.INT64, [1, 1]),
        cache_info(cache, length),
    ]
    if past is not None:
        outputs.append(helper.make_tensor_value_info(WRITTEN, TensorProto.INT64, [1, 1]))
    tensors = [numpy_helper.from_array(weights[each], each) for each in b.used]
    graph = helper.make_graph(b.nodes, name, inputs, outputs, [*tensors, *b.constants.values()])
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="ortpkg",
    )
    onnx.checker.check_model(model, full_check=True)
    return model
