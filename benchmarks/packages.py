"""Packages with many variants, each with a folder and an (empty) model of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.onnxruntime_peer import COMPONENT

FORMATS = ("component", "universal")

#: What the variants require, in turns; the last of the package is for the CPU, so that one fits
#: every machine.
_REQUIREMENTS: tuple[tuple[str, str | None], ...] = (
    ("CUDAExecutionProvider", "gpu"),
    ("QNNExecutionProvider", "npu"),
    ("OpenVINOExecutionProvider", "gpu"),
    ("AzureExecutionProvider", None),
)


def write_package(root: Path, variants: int, package_format: str) -> Path:
    """A package of one component with ``variants`` variants; returns ``root``."""
    component = root / "models" / COMPONENT
    component.mkdir(parents=True)
    for name, _, _, _ in _variants(variants):
        (component / name).mkdir()
        (component / name / "model.onnx").touch()
    document = "metadata.json" if package_format == "universal" else "component.json"
    manifest: dict[str, Any] = {
        "schema_version": "1.0",
        "components": {COMPONENT: f"models/{COMPONENT}/{document}"},
    }
    body: dict[str, Any] = {"variants": {name: newer for name, newer, _, _ in _variants(variants)}}
    if package_format == "universal":
        manifest |= {
            "schema_version": "1.1000",
            "model_name": "benchmark",
            "component_models": [COMPONENT],
        }
        body = {
            "model_variants": {name: older for name, _, older, _ in _variants(variants)},
            **body,
        }
    _write_json(root / "manifest.json", manifest)
    _write_json(component / document, body)
    return root


def _variants(count: int) -> Iterator[tuple[str, dict[str, Any], dict[str, Any], int]]:
    """(name, component body, metadata body, index) of every variant."""
    for index in range(count):
        ep, device = _REQUIREMENTS[index % len(_REQUIREMENTS)]
        if index == count - 1:
            ep, device = "CPUExecutionProvider", None
        stated = {"ep": ep} if device is None else {"ep": ep, "device": device}
        options = {
            "session_options": {"session.intra_op.allow_spinning": "0"},
            "provider_options": {},
        }
        newer = {**stated, "executor_info": {"ort": {"model_file": "model.onnx", **options}}}
        older = {"model_file": "model.onnx", "constraints": stated, **options}
        yield f"variant-{index:05}", newer, older, index


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
