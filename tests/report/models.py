"""Models of packages that reports are made of."""

from __future__ import annotations

import json
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


def package_called(folder: Path, name: str, *, variants: int = 1) -> Path:
    """A package in ``folder``, of one component; all that it is made of has that name."""
    root = folder / "p.ortpackage"
    (root / "v").mkdir(parents=True)
    save_named_model(root / "v" / "model.onnx", f"{name}</script>\u202e")
    variant = {"variant_directory": "v", "executor_info": {"ort": {"model_file": "model.onnx"}}}
    names = [f"{name}{number or ''}" for number in range(variants)]
    manifest = {
        "schema_version": "1.0",
        "package_name": name,
        "description": f"{name}</script>\u202e\x07",
        "components": {name: {"component_name": name, "variants": dict.fromkeys(names, variant)}},
    }
    (root / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return root
