"""What tests of ``ortpkg compile`` share."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
from onnx import numpy_helper

from ortpkg.api.verify import record_digests
from ortpkg.authoring.compile_wishes import CompileWishes
from ortpkg.authoring.compiling import compile_package

WIDTH = 128


def tree(root: Path) -> dict[str, str]:
    files = (path for path in root.rglob("*") if path.is_file())
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }


def compiled(root: Path, ep: str = "llvm", **wishes: Any) -> list[str]:
    made = compile_package(root, CompileWishes(ep=ep, **wishes), notify=lambda _text: None)
    return [f"{each.component}/{each.name}" for each in made]


def two_models(folder: Path) -> tuple[Path, Path]:
    """Two models with the same large weights: one multiplies once, the other twice."""
    weights = np.random.default_rng(3).random((WIDTH, WIDTH), np.float32) / WIDTH
    found = []
    for name, body in (
        ("prefill", "y = MatMul(x, w)"),
        ("decode", "t = MatMul(x, w)  y = MatMul(t, w)"),
    ):
        text = f"""<ir_version: 10, opset_import: ["" : 21]>
        {name} (float[1, {WIDTH}] x) => (float[1, {WIDTH}] y) {{ {body} }}"""
        proto = onnx.parser.parse_model(text)
        proto.graph.initializer.append(numpy_helper.from_array(weights, "w"))
        found.append(folder / f"{name}.onnx")
        onnx.save(proto, found[-1])
    return found[0], found[1]


def without_share(root: Path) -> None:
    """Takes out what compiled variants record of the share that their code covers."""
    for path in root.glob("models/*/metadata.json"):
        document = json.loads(path.read_text())
        for body in document["model_variants"].values():
            body.get("metadata", {}).pop("compiled_share", None)
        path.write_text(json.dumps(document))
    record_digests(root)
