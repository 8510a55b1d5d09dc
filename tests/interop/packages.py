"""Packages for the interop tests as trees of files, written by hand without our code.

A model here computes ``y = x + offset``, so that an output tells which variant ran.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper

AZURE = "AzureExecutionProvider"
"""An EP that is not CPU, is in every stock wheel, and lets a model run on the CPU: it stands for
any such EP.
"""

CPU = "CPUExecutionProvider"

DIGEST = "a" * 64
"""Of an asset. The releases never hash an asset when they open a package, so any digits do."""


@dataclass(frozen=True, slots=True)
class Model:
    """An ONNX file with its offset inside, or at ``location`` beside it in the tree."""

    offset: float
    location: str = ""

    def serialized(self) -> bytes:
        offset = helper.make_tensor(
            "offset",
            TensorProto.FLOAT,
            [1],
            np.array([self.offset], np.float32).tobytes(),
            raw=True,
        )
        if self.location:
            offset.ClearField("raw_data")
            offset.data_location = TensorProto.EXTERNAL
            for key, value in (("location", self.location), ("offset", "0"), ("length", "4")):
                offset.external_data.add(key=key, value=value)
        value_infos = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy"
        ]
        graph = helper.make_graph(
            [helper.make_node("Add", ["x", "offset"], ["y"])],
            "offset",
            value_infos[:1],
            value_infos[1:],
            [offset],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        serialized: bytes = model.SerializeToString()
        return serialized


@dataclass(frozen=True, slots=True)
class Weights:
    """A data file with one offset."""

    offset: float

    def serialized(self) -> bytes:
        return np.array([self.offset], np.float32).tobytes()


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link; ``target`` is relative to the link's directory."""

    target: str


@dataclass(frozen=True, slots=True)
class Folder:
    """A directory, for those that hold nothing."""


Content = Model | Weights | Link | Folder | bytes | str | Mapping[str, Any]
"""What lies at a path: a mapping is written as JSON, text and bytes as they are."""

Tree = Mapping[str, Content]
"""Path relative to the package's root → content. ``../outside`` lies beside the package."""


def write_tree(root: Path, tree: Tree) -> Path:
    """Writes the package; the root itself too where the tree is empty."""
    root.mkdir(parents=True, exist_ok=True)
    for relative, content in tree.items():
        path = root / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        match content:
            case Folder():
                path.mkdir(exist_ok=True)
            case Link(target):
                path.symlink_to(target)
            case Model() | Weights():
                path.write_bytes(content.serialized())
            case bytes():
                path.write_bytes(content)
            case str():
                path.write_text(content, encoding="utf-8")
            case _:
                path.write_text(
                    json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
                )
    return root


def component_manifest(components: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """manifest.json of the component generation."""
    return {"schema_version": "1.0", "components": components, **more}


def ort_variant(
    ep: str | None = CPU, model_file: str = "model.onnx", **more: Any
) -> dict[str, Any]:
    """A component-generation variant that onnxruntime can run.

    Options in ``more`` go into its payload.
    """
    payload: dict[str, Any] = {"model_file": model_file}
    for key in ("session_options", "provider_options"):
        if key in more:
            payload[key] = more.pop(key)
    return ({} if ep is None else {"ep": ep}) | more | {"executor_info": {"ort": payload}}


def inline(variants: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A manifest with the one component ``c``, inline."""
    return component_manifest({"c": {"variants": variants}}, **more)


def metadata_variant(ep: str | None = AZURE, **more: Any) -> dict[str, Any]:
    """A metadata-generation variant in ``model.onnx``.

    ``device``, ``architecture`` and the like are constraints.
    """
    constraints = {} if ep is None else {"ep": ep}
    for key in ("device", "architecture", "ep_compatibility_info"):
        if key in more:
            constraints[key] = more.pop(key)
    return {"model_file": "model.onnx", "constraints": constraints} | more


def metadata_manifest(**more: Any) -> dict[str, Any]:
    """manifest.json of the metadata generation with the one component ``c``."""
    return {"model_name": "m", "component_models": ["c"], **more}


def universal_tree() -> dict[str, Content]:
    """A package for all releases, 1.26 to 1.31: both generations' keys, the same files."""
    eps = {"cpu": CPU, "azure": AZURE}
    metadata = {
        "component_model_name": "c",
        "model_variants": {name: metadata_variant(ep) for name, ep in eps.items()},
        "variants": {name: ort_variant(ep) for name, ep in eps.items()},
    }
    manifest = metadata_manifest(
        schema_version="1.1000", components={"c": "models/c/metadata.json"}
    )
    models = {
        f"models/c/{name}/model.onnx": Model(offset)
        for name, offset in (("cpu", 1.0), ("azure", 2.0))
    }
    return {"manifest.json": manifest, "models/c/metadata.json": metadata, **models}


def olive_tree() -> dict[str, Content]:
    """A package as Olive's ``generate-model-package`` makes it: GenAI's files only."""
    genai_config = {
        "model": {"decoder": {"filename": "model.onnx"}, "tokenizer_dir": f"sha256:{DIGEST}"}
    }
    manifest = component_manifest(
        {"model": "models/model"},
        package_name="m",
        package_version="1.0",
        additional_metadata={
            "producer": {"tool": "olive-ai", "model_name": "m", "model_version": "1.0"}
        },
    )
    component = {
        "component_name": "model",
        "variants": {"cpu": {"ep": CPU}, "gpu": {"ep": "CUDAExecutionProvider"}},
    }
    tree: dict[str, Content] = {"manifest.json": manifest, "models/model/component.json": component}
    for name, offset in (("cpu", 1.0), ("gpu", 2.0)):
        tree[f"models/model/{name}/genai_config.json"] = genai_config
        tree[f"models/model/{name}/model.onnx"] = Model(offset)
    tree[f"shared_assets/sha256-{DIGEST}/tokenizer.json"] = "{}\n"
    return tree


def component_forms_tree() -> dict[str, Content]:
    """A component inline, one in a file of any name and one in a directory.

    Each variant in its own directory.
    """
    body = {"variants": {"v": ort_variant()}}
    return {
        "manifest.json": component_manifest(
            {"inline": body, "file": "components/any.json", "directory": "parts/d"}
        ),
        "components/any.json": body,
        "parts/d/component.json": body,
        "v/model.onnx": Model(1.0),
        "components/v/model.onnx": Model(2.0),
        "parts/d/v/model.onnx": Model(3.0),
    }


def common_directory_tree() -> dict[str, Content]:
    """Weights shared without an option: two models beside one file, in one folder."""
    names = {"azure": AZURE, "cpu": CPU}
    variants = {
        name: ort_variant(ep, f"{name}.onnx", variant_directory="shared")
        for name, ep in names.items()
    }
    models = {f"shared/{name}.onnx": Model(0.0, "weights.bin") for name in names}
    return {"manifest.json": inline(variants), "shared/weights.bin": Weights(5.0), **models}


def metadata_common_directory_tree() -> dict[str, Content]:
    """The metadata generation's counterpart: one ``model_id``, one ``model_file`` each."""
    variants = {
        name: {"model_id": "shared", "model_file": f"{name}.onnx", "constraints": {"ep": ep}}
        for name, ep in (("azure", AZURE), ("cpu", CPU))
    }
    models = {f"models/c/shared/{name}.onnx": Model(0.0, "weights.bin") for name in variants}
    metadata = {"component_model_name": "c", "model_variants": variants}
    return {
        "manifest.json": metadata_manifest(),
        "models/c/metadata.json": metadata,
        "models/c/shared/weights.bin": Weights(5.0),
        **models,
    }


def shared_asset_tree() -> dict[str, Content]:
    """Shared weights in the form that needs the folder option: a content-addressed asset."""
    options = {"session.model_external_initializers_file_folder_path": f"sha256:{DIGEST}"}
    return {
        "manifest.json": inline({"v": ort_variant(session_options=options)}),
        "v/model.onnx": Model(0.0, "weights.bin"),
        f"shared_assets/sha256-{DIGEST}/weights.bin": Weights(7.0),
    }
