"""Writes sample_packages/tinychar.ortpackage: two components over one file of weights."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from ortpkg.api.model_package import ModelPackage
from ortpkg.foundations.documents.json_documents import dump_document
from ortpkg.package.integrity.digest_check import compute_digests
from ortpkg.package.integrity.digests import dump_digests
from ortpkg.package.sidecar import DIGESTS_FILE
from scripts.arrays import write_arrays
from scripts.tinychar.corpus import Corpus
from scripts.tinychar.training import Shape

VARIANT = "cpu-fp32"
VERSION = "1.0.0"
FOLDER = f"models/tinychar/{VARIANT}"
WEIGHTS_FILE = "tinychar.onnx.data"
#: Characters that the sample writes after its prompt.
COUNT = 120
PROMPTS: Mapping[str, str] = {
    "a-speaker-begins": "GLOUCESTER:\n",
    "a-line-begins": "The king ",
    "a-prayer": "O God, ",
}


def write_package(
    root: Path, models: Mapping[str, onnx.ModelProto], corpus: Corpus, shape: Shape, loss: float
) -> None:
    """Writes the package at ``root``, in place of what is there.

    Args:
        root: the package.
        models: "prefill" and "decode"; their large initializers are the same tensors under the same
            names.
        corpus: whose vocabulary the output is shown with.
        shape: of the network.
        loss: on the held-out text, in nats per character.
    """
    if root.exists():
        shutil.rmtree(root)
    folder = root / FOLDER
    folder.mkdir(parents=True)
    _write_models(folder, models)
    (root / "manifest.json").write_bytes(dump_document(_manifest(models, shape, loss)))
    (root / "pipeline.json").write_bytes(dump_document(_pipeline()))
    (root / "README.md").write_text(_model_card(corpus, shape, loss), encoding="utf-8")
    _write_samples(root, corpus)
    (root / DIGESTS_FILE).write_bytes(dump_digests(compute_digests(root)))


def _write_models(folder: Path, models: Mapping[str, onnx.ModelProto]) -> None:
    """Both models beside one data file; each tensor of some size is stored once, under its name."""
    places: dict[str, tuple[int, int]] = {}
    data = bytearray()
    for name, model in models.items():
        for tensor in model.graph.initializer:
            content = tensor.raw_data
            if len(content) < 1024:
                continue
            if tensor.name not in places:
                data += bytes(-len(data) % 64)
                places[tensor.name] = (len(data), len(content))
                data += content
            offset, length = places[tensor.name]
            if bytes(data[offset : offset + length]) != content:
                raise ValueError(f"the models have two different tensors {tensor.name}")
            tensor.ClearField("raw_data")
            tensor.data_location = onnx.TensorProto.EXTERNAL
            for key, value in (("location", WEIGHTS_FILE), ("offset", offset), ("length", length)):
                tensor.external_data.add(key=key, value=str(value))
        (folder / f"{name}.onnx").write_bytes(model.SerializeToString(deterministic=True))
    (folder / WEIGHTS_FILE).write_bytes(bytes(data))


def _manifest(models: Mapping[str, onnx.ModelProto], shape: Shape, loss: float) -> dict[str, Any]:
    facts = {
        "data_types": ["float", "int64"],
        "quantization": None,
        "opset": models["decode"].opset_import[0].version,
    }
    return {
        "schema_version": "1.0",
        "package_name": "tinychar",
        "package_version": VERSION,
        "description": (
            "Writes a line in the manner of Shakespeare, character by character: a small"
            " transformer."
        ),
        "components": {
            name: {
                "component_name": name,
                "variants": {
                    VARIANT: {
                        "ep": "CPUExecutionProvider",
                        "variant_directory": FOLDER,
                        "executor_info": {"ort": {"model_file": f"{name}.onnx"}},
                        "additional_metadata": {
                            "ortpkg": {
                                "metadata": {
                                    **facts,
                                    "nodes": len(model.graph.node),
                                    "context": shape.context,
                                    "held_out_nats_per_character": round(loss, 4),
                                }
                            }
                        },
                    }
                },
            }
            for name, model in models.items()
        },
    }


def _pipeline() -> dict[str, Any]:
    return {
        "schema_version": "1.0",
        "description": (
            "prefill reads the prompt; decode then writes one character a round, its cache growing"
            " with it."
        ),
        "inputs": [{"name": "tokens", "type": "tensor(int64)", "shape": [1, "prompt"]}],
        "outputs": [{"name": "text", "type": "tensor(int64)", "shape": [COUNT, 1, 1]}],
        "steps": [
            {
                "component": "prefill",
                "inputs": {"tokens": "tokens"},
                "outputs": {"next_token": "first", "new_cache": "cache"},
            },
            {
                "repeat": {
                    "times": COUNT,
                    "steps": [
                        {
                            "component": "decode",
                            "inputs": {"token": "first", "cache": "cache"},
                            "outputs": {
                                "next_token": "next",
                                "new_cache": "longer",
                                "written": "text",
                            },
                        }
                    ],
                    "carry": {"first": "next", "cache": "longer"},
                    "collect": ["text"],
                }
            },
        ],
    }


def _write_samples(root: Path, corpus: Corpus) -> None:
    """One sample set per prompt: the pipeline runs on it as a whole."""
    folder = root / "samples"
    folder.mkdir()
    samples: list[dict[str, Any]] = []
    for name, prompt in PROMPTS.items():
        write_arrays(folder / f"{name}.inputs.npz", {"tokens": corpus.encode(prompt)[None]})
        samples.append(
            {
                "name": name,
                "description": f"What is written after {json.dumps(prompt)}.",
                "inputs": f"{name}.inputs.npz",
                "batch_axis": None,
                "display": {"output": "text", "as": "text", "vocabulary": "vocabulary.json"},
            }
        )
    (folder / "vocabulary.json").write_bytes(dump_document({"words": list(corpus.vocabulary)}))
    (folder / "samples.json").write_bytes(
        dump_document({"schema_version": "1.0", "samples": samples})
    )
    for sample, prompt in zip(samples, PROMPTS.values(), strict=True):
        expected = _written_text(root, corpus, prompt)
        write_arrays(folder / f"{sample['name']}.outputs.npz", {"text": expected})
        sample["expected_outputs"] = f"{sample['name']}.outputs.npz"
    (folder / "samples.json").write_bytes(
        dump_document({"schema_version": "1.0", "samples": samples})
    )


def _written_text(root: Path, corpus: Corpus, prompt: str) -> np.ndarray[Any, Any]:
    """What the package writes on onnxruntime, another engine than the one that its tests run on."""
    session = ModelPackage(root).create_session(backend="onnxruntime")
    (text,) = session.run(None, {"tokens": corpus.encode(prompt)[None]})
    result: np.ndarray[Any, Any] = text
    return result


def _model_card(corpus: Corpus, shape: Shape, loss: float) -> str:
    return f"""# tinychar

A character-level transformer: {shape.layers} layers, {shape.heads} heads, width {shape.width}, at most
{shape.context} characters of context, {len(corpus.vocabulary)} different ones.
It was trained on the beginning of Shakespeare's plays, which are in the public domain (`scripts/tinychar/text.txt`),
and reaches {loss:.2f} nats per character on the part that was held out. It knows no facts and no language but this.

- `prefill` reads the prompt, `decode` one character at a time; both lie in one directory and share one file of weights.
- `pipeline.json` writes {COUNT} characters. Sampling is part of the models: a fixed row of noise per position, so the
  same prompt always gives the same text.
- Made by `python -m scripts.train_tinychar`.
"""
