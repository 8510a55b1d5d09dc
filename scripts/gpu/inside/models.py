"""Packages to try: a convolutional network, an encoder of text, and the digits with more variants.

    models FOLDER EP=DEVICE...

Weights are drawn; expected outputs are those of onnxruntime's CPU provider, with the tolerance that
float16 and TF32 need.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import ortpkg

_ROOT = Path(__file__).resolve().parents[3]
_CHANNELS = (64, 128, 256)
_WIDTH, _HEADS, _LENGTH, _LAYERS = 512, 8, 128, 4
_OPSET = 17


class GraphMaker:
    """Nodes and weights of a model, in the order in which they are added."""

    def __init__(self, seed: int) -> None:
        self._draw = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def weight(self, *shape: int) -> str:
        """Add drawn weights that keep the size of what they are multiplied by."""
        fan_in = int(np.prod(shape[1:])) if len(shape) == 4 else shape[0]
        values = self._draw.normal(0, 1 / np.sqrt(fan_in), shape).astype(np.float32)
        return self.constant(values)

    def constant(self, values: Any) -> str:
        """Add a tensor."""
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def add(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """Add a node; return the name of its output."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, list(inputs), [name], **attributes))
        return name


def convolutional() -> onnx.ModelProto:
    """Return a residual network for pictures of 64 x 64, with a thousand classes."""
    maker = GraphMaker(1)
    value, channels = "image", 3
    for wider in _CHANNELS:
        value = maker.add(
            "Conv", value, maker.weight(wider, channels, 3, 3), pads=[1] * 4, strides=[2, 2]
        )
        value = maker.add("Relu", value)
        for _ in range(2):
            inner = maker.add("Conv", value, maker.weight(wider, wider, 3, 3), pads=[1] * 4)
            inner = maker.add("Relu", inner)
            inner = maker.add("Conv", inner, maker.weight(wider, wider, 3, 3), pads=[1] * 4)
            value = maker.add("Relu", maker.add("Add", inner, value))
        channels = wider
    value = maker.add("Flatten", maker.add("GlobalAveragePool", value))
    value = maker.add("MatMul", value, maker.weight(channels, 1000))
    maker.add("Softmax", value, axis=-1)
    return _model(maker, [("image", TensorProto.FLOAT, ["batch", 3, 64, 64])], ["batch", 1000])


def encoder() -> onnx.ModelProto:
    """Return four layers of an encoder of 512 values a token."""
    maker = GraphMaker(2)
    value = maker.add("Gather", maker.weight(2000, _WIDTH), "tokens", axis=0)
    for _ in range(_LAYERS):
        value = maker.add("Add", value, _attention(maker, value))
        value = _normalized(maker, value)
        inner = maker.add("MatMul", value, maker.weight(_WIDTH, 4 * _WIDTH))
        gate = maker.add("Erf", maker.add("Mul", inner, maker.constant(np.float32(np.sqrt(0.5)))))
        inner = maker.add("Mul", inner, maker.add("Add", gate, maker.constant(np.float32(1))))
        inner = maker.add("Mul", inner, maker.constant(np.float32(0.5)))
        value = maker.add(
            "Add", value, maker.add("MatMul", inner, maker.weight(4 * _WIDTH, _WIDTH))
        )
        value = _normalized(maker, value)
    return _model(
        maker, [("tokens", TensorProto.INT64, ["batch", _LENGTH])], ["batch", _LENGTH, _WIDTH]
    )


def _attention(maker: GraphMaker, value: str) -> str:
    split = maker.constant(np.array([0, _LENGTH, _HEADS, _WIDTH // _HEADS]))
    parts = []
    for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
        part = maker.add("MatMul", value, maker.weight(_WIDTH, _WIDTH))
        parts.append(maker.add("Transpose", maker.add("Reshape", part, split), perm=order))
    scale = maker.constant(np.float32(1 / np.sqrt(_WIDTH // _HEADS)))
    scores = maker.add("Mul", maker.add("MatMul", parts[0], parts[1]), scale)
    mixed = maker.add("MatMul", maker.add("Softmax", scores, axis=-1), parts[2])
    joined = maker.add(
        "Reshape",
        maker.add("Transpose", mixed, perm=[0, 2, 1, 3]),
        maker.constant(np.array([0, _LENGTH, _WIDTH])),
    )
    return maker.add("MatMul", joined, maker.weight(_WIDTH, _WIDTH))


def _normalized(maker: GraphMaker, value: str) -> str:
    ones, zeros = np.ones(_WIDTH, np.float32), np.zeros(_WIDTH, np.float32)
    return maker.add("LayerNormalization", value, maker.constant(ones), maker.constant(zeros))


def _model(
    maker: GraphMaker, inputs: list[tuple[str, int, list[Any]]], shape: list[Any]
) -> onnx.ModelProto:
    maker.nodes[-1].output[0] = "y"
    graph = helper.make_graph(
        maker.nodes,
        "tried",
        [helper.make_tensor_value_info(*value) for value in inputs],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        maker.weights,
    )
    opsets = [helper.make_opsetid("", _OPSET)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def _package(folder: Path, name: str, model: onnx.ModelProto, targets: dict[str, str]) -> Path:
    """Make a package of one model with a variant for each EP, and samples of it."""
    path = folder / f"{name}.onnx"
    onnx.save(model, path)
    package = folder / f"{name}.ortpackage"
    variants = [
        ortpkg.NewVariant(model=path, name=f"for-{ep.lower()[:8]}", ep=ep, device=device)
        for ep, device in targets.items()
    ]
    ortpkg.create(package, variants)
    draw = np.random.default_rng(3)
    feeds: dict[str, Any] = {
        "image": draw.random((1, 3, 64, 64), dtype=np.float32),
        "tokens": draw.integers(0, 2000, (1, _LENGTH)),
    }
    feed = {value.name: feeds[value.name] for value in model.graph.input}
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, feed)
    np.savez(folder / f"{name}_in.npz", allow_pickle=False, **feed)
    np.savez(folder / f"{name}_out.npz", y=expected)
    return package


def main(folder: Path, targets: dict[str, str]) -> dict[str, Any]:
    digits = folder / "digits.ortpackage"
    shutil.copytree(_ROOT / "sample_packages/digits.ortpackage", digits)
    packages = {"digits": str(digits)}
    for name, make in (("conv", convolutional), ("encoder", encoder)):
        packages[name] = str(_package(folder, name, make(), targets))
    return {"packages": packages}


if __name__ == "__main__":
    wished = dict(word.split("=", 1) for word in sys.argv[2:])
    print(json.dumps(main(Path(sys.argv[1]), wished)))
