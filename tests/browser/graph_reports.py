"""Reports of models whose graphs are to be seen: with modules in their names, hostile, and large."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ortpkg import ModelPackage, ReportWishes

_SIZE = 4
#: Of which no two compute the same, so that optimizations leave all.
_UNLIKE = ("Exp", "Tanh", "Sigmoid", "Relu", "Neg", "Sin", "Cos", "Erf")
_OPERATORS = {"Exp", "Tanh", "Sigmoid"}


def report_of(folder: Path, nodes: Iterable[onnx.NodeProto], *eps: str) -> str:
    """The page of a package with one model of these nodes.

    Its input is ``x``; its output is the last node's first one. ``w`` is a weight. ``eps``: those
    that are asked for, in order.
    """
    root = folder / "graphs.ortpackage"
    (root / "v").mkdir(parents=True)
    listed = list(nodes)
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [_SIZE, _SIZE])
        for name in ("x", listed[-1].output[0])
    ]
    weights = [numpy_helper.from_array(np.eye(_SIZE, dtype=np.float32), "w")]
    graph = helper.make_graph(listed, "g", values[:1], values[1:], weights)
    imports = [helper.make_opsetid("", 21)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    onnx.save(model, root / "v" / "model.onnx")
    variant = {"variant_directory": "v", "executor_info": {"ort": {"model_file": "model.onnx"}}}
    components = {"c": {"component_name": "c", "variants": {"v": variant}}}
    manifest = {"schema_version": "1.0", "package_name": "graphs", "components": components}
    (root / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return ModelPackage(root).report(ReportWishes(eps=eps))


def named_chain(names: Iterable[str]) -> list[onnx.NodeProto]:
    """A node of each of these names, one after the other.

    Its operator is that of its name, as in "/pooler/Tanh_1"; Exp where the name tells none.
    """
    listed = list(names)
    values = ["x", *(f"{name} out" for name in listed)]
    return [
        helper.make_node(_operator_in(name), [taken], [made], name=name)
        for name, taken, made in zip(listed, values, values[1:], strict=False)
    ]


def _operator_in(name: str) -> str:
    own = name.rpartition("/")[2].partition("_")[0]
    return own if own in _OPERATORS else "Exp"


def ladder(length: int) -> list[onnx.NodeProto]:
    """Nodes one after the other that all take the graph's input, too."""
    made = ["x", *(f"v{number}" for number in range(length))]
    return [
        helper.make_node("Add", [before, "x"], [own], name=f"Add_{number}")
        for number, (before, own) in enumerate(itertools.pairwise(made))
    ]


def fans() -> list[onnx.NodeProto]:
    """A module of eight nodes side by side, whose sum another such module takes."""
    nodes = []
    for module, taken in (("upper", "x"), ("lower", "upper sum")):
        made = [f"{module} {operator}" for operator in _UNLIKE]
        nodes += [
            helper.make_node(operator, [taken], [own], name=f"/{module}/{operator}")
            for operator, own in zip(_UNLIKE, made, strict=True)
        ]
        nodes.append(helper.make_node("Sum", made, [f"{module} sum"], name=f"/{module}/Sum"))
    return nodes


def layered_names(layers: int) -> list[str]:
    """Those of an encoder: per layer a module ``attention`` of 40 nodes and one ``output`` of 3."""
    return [
        name
        for layer in range(layers)
        for name in (
            *(f"/encoder/layer.{layer}/attention/Exp_{number}" for number in range(40)),
            *(f"/encoder/layer.{layer}/output/Tanh_{number}" for number in range(3)),
        )
    ] + ["/pooler/Tanh", "/pooler/Exp"]
