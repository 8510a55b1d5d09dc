"""Models of packages that reports are made of."""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import TensorProto, helper


def save_named_model(path: Path, name: str) -> None:
    """Writes a model of one node; it, the graph, its input and its output have that name."""
    node = helper.make_node("Relu", [f"{name} in"], [f"{name} out"], name=name)
    values = [
        helper.make_tensor_value_info(f"{name} {end}", TensorProto.FLOAT, [f"{name} N", 3])
        for end in ("in", "out")
    ]
    graph = helper.make_graph([node], name, values[:1], values[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]), path)
