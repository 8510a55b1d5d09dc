"""Packages for the checks: a tree of files as a value, changed by a case and then written."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
from onnx import TensorProto, helper

from ortpkg.authoring.package_checks import validate
from ortpkg.foundations.errors import Finding

Tree = dict[str, Any]
"""Path → bytes as they are, or a value that is written as JSON. A case may change it before it is
written.
"""

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"
SIGNATURE = "(float[n, 4] x) => (float[n, 4] y)"
NBYTES = 16
"""Of each tensor in external data."""


def model(
    signature: str = SIGNATURE,
    *,
    ir_version: int = 9,
    opset: int = 17,
    domain: str = "",
    operator: str = "Identity",
    attributes: str = "",
) -> bytes:
    """y = Identity(x), or another operator, of ONNX's domain or another one.

    ``attributes``: as in onnx's text format, such as "axis = 1".
    """
    imports = f'["" : {opset}, "{domain}" : 1]' if domain else f'["" : {opset}]'
    stated = f"<{attributes}>" if attributes else ""
    called = f"{domain}.{operator}" if domain else operator
    text = f"<ir_version: {ir_version}, opset_import: {imports}> g {signature} {{ y = {called} {stated} (x) }}"
    serialized: bytes = onnx.parser.parse_model(text).SerializeToString()
    return serialized


def external(name: str = "w", location: str = "w.bin", **entries: str) -> onnx.TensorProto:
    """A tensor of four floats whose data lies elsewhere."""
    tensor = TensorProto(
        name=name, data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL
    )
    for key, value in (
        {"location": location, "offset": "0", "length": str(NBYTES)} | entries
    ).items():
        tensor.external_data.add(key=key, value=value)
    return tensor


def model_of(graph: onnx.GraphProto, *functions: onnx.FunctionProto) -> bytes:
    opsets = [
        helper.make_opsetid("", 17),
        helper.make_opsetid("com.microsoft", 1),
        helper.make_opsetid("local", 1),
    ]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=9, functions=list(functions))
    serialized: bytes = made.SerializeToString()
    return serialized


def graph_of(*nodes: onnx.NodeProto, tensors: tuple[onnx.TensorProto, ...] = ()) -> onnx.GraphProto:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in "xy")
    return helper.make_graph(list(nodes), "g", [x], [y], list(tensors))


def model_with_data(*tensors: onnx.TensorProto) -> bytes:
    """y = x + w, where w and the other tensors lie in external data."""
    used = tensors or (external(),)
    return model_of(graph_of(helper.make_node("Add", ["x", used[0].name], ["y"]), tensors=used))


def context_model(**attributes: Any) -> bytes:
    """One EPContext node with its context in net.bin."""
    stated: dict[str, Any] = {
        "embed_mode": 0,
        "ep_cache_context": "net.bin",
        "source": "QNN",
    } | attributes
    return model_of(
        graph_of(helper.make_node("EPContext", ["x"], ["y"], domain="com.microsoft", **stated))
    )


def weightless_model(mode: str, source: str = "") -> bytes:
    """A compiled model whose contexts take weights from ``source``, in the mode."""
    stated = {"onnx_model_filename": source} if source else {}
    proto = onnx.load_from_string(context_model(**stated))
    helper.set_model_props(proto, {"weightless_mode": mode})
    serialized: bytes = proto.SerializeToString()
    return serialized


def npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def variant(ep: str | None = CPU, device: str | None = None, **ort: Any) -> dict[str, Any]:
    """A variant of the component generation."""
    stated = {key: value for key, value in (("ep", ep), ("device", device)) if value is not None}
    return stated | {"executor_info": {"ort": {"model_file": "model.onnx", **ort}}}


def component_tree(**variants: Mapping[str, Any]) -> Tree:
    """A package of the component generation, inline; by default with a CPU and a CUDA variant."""
    all_of_them = variants or {"cpu": variant(), "gpu": variant(CUDA, "gpu")}
    tree: Tree = {
        "manifest.json": {
            "schema_version": "1.0",
            "components": {"m": {"variants": dict(all_of_them)}},
        }
    }
    return tree | {f"{name}/model.onnx": model() for name in all_of_them}


def metadata_tree(**constraints: Mapping[str, str]) -> Tree:
    """A package of the metadata generation."""
    all_of_them = constraints or {"cpu": {"ep": CPU}, "gpu": {"ep": CUDA, "device": "gpu"}}
    bodies = {
        name: {"model_file": "model.onnx", "constraints": each}
        for name, each in all_of_them.items()
    }
    tree: Tree = {
        "manifest.json": {"model_name": "m", "component_models": ["m"]},
        "models/m/metadata.json": {"model_variants": bodies},
    }
    return tree | {f"models/m/{name}/model.onnx": model() for name in all_of_them}


def universal_tree() -> Tree:
    """A package with the keys of both generations."""
    tree = metadata_tree()
    tree["manifest.json"] |= {
        "schema_version": "1.1000",
        "components": {"m": "models/m/metadata.json"},
    }
    tree["models/m/metadata.json"]["variants"] = {"cpu": variant(), "gpu": variant(CUDA, "gpu")}
    return tree


def genai_tree() -> Tree:
    """One component whose variant is a set of files."""
    return {
        "manifest.json": {
            "schema_version": "1.0",
            "components": {"m": {"variants": {"cpu": {"ep": CPU}}}},
        },
        "cpu/genai_config.json": {"model": {"decoder": {"filename": "decoder.onnx"}}},
        "cpu/decoder.onnx": model(),
    }


def pipeline_tree() -> Tree:
    """Two components, the second of which takes what the first makes."""
    manifest = {
        "schema_version": "1.0",
        "components": {
            name: {"variants": {f"{name}-cpu": variant()}} for name in ("first", "second")
        },
    }
    return {
        "manifest.json": manifest,
        "first-cpu/model.onnx": model(),
        "second-cpu/model.onnx": model(),
        "pipeline.json": {
            "schema_version": "1.0",
            "inputs": [{"name": "in", "type": "tensor(float)", "shape": ["n", 4]}],
            "outputs": [{"name": "out", "type": "tensor(float)", "shape": ["n", 4]}],
            "steps": [
                {"component": "first", "inputs": {"x": "in"}, "outputs": {"y": "mid"}},
                {"component": "second", "inputs": {"x": "mid"}, "outputs": {"y": "out"}},
            ],
        },
    }


def sample_tree() -> Tree:
    """A package with one sample set of five samples, with labels."""
    images = np.zeros((5, 4), np.float32)
    sample = {
        "name": "s",
        "inputs": "in.npz",
        "expected_outputs": "out.npz",
        "batch_axis": 0,
        "labels": {"file": "labels.npz", "name": "labels"},
        "display": {"output": "y", "as": "class"},
    }
    return component_tree() | {
        "samples/samples.json": {"schema_version": "1.0", "samples": [sample]},
        "samples/in.npz": npz(x=images),
        "samples/out.npz": npz(y=images),
        "samples/labels.npz": npz(labels=np.arange(5) % 4),
    }


def write_tree(root: Path, tree: Tree) -> Path:
    for path, content in tree.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            file.write_bytes(content)
        else:
            file.write_text(json.dumps(content, indent=2), encoding="utf-8")
    return root


def findings_of(root: Path, **options: Any) -> dict[str, list[Finding]]:
    """Rule → its findings, without the one that there are no digests."""
    found: dict[str, list[Finding]] = {}
    for finding in validate(root, **{"ignore": ["ORT405"], **options}):
        found.setdefault(finding.rule, []).append(finding)
    return found


Change = Callable[[Tree], None]
