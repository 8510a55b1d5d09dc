"""Writes the whole package: models, documents, samples, model card, digests.

The same content, the same bytes.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from ortpkg.authoring.create import create
from ortpkg.authoring.new_variant import NewVariant
from ortpkg.foundations.documents.json_documents import dump_document
from ortpkg.package.integrity.digest_check import compute_digests
from ortpkg.package.integrity.digests import dump_digests
from ortpkg.package.sidecar import DIGESTS_FILE
from scripts.arrays import write_arrays
from scripts.digits.data import Scans
from scripts.digits.graph_builder import INPUT, OUTPUT
from scripts.digits.model_card import model_card
from scripts.digits.network import Array
from scripts.digits.variants import Variant

COMPONENT = "classifier"
MODEL_FILE = "model.onnx"
MODEL_VERSION = "1.0.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenVariant:
    """A variant with its model and what was measured on the held-out scans."""

    variant: Variant
    model: onnx.ModelProto
    accuracy: float
    greatest_error: float


def write_package(
    root: Path, variants: tuple[WrittenVariant, ...], held_out: Scans, expected: Array
) -> None:
    """Writes the package at ``root``, in place of what is there."""
    if root.exists():
        shutil.rmtree(root)
    with tempfile.TemporaryDirectory() as folder:
        create(
            root,
            [_new_variant(written, Path(folder)) for written in variants],
            name="digits",
            component=COMPONENT,
            version=MODEL_VERSION,
            description=(
                "Recognizes handwritten digits in 8x8 scans: a small convolutional classifier."
            ),
        )
    _add_value_range(root / "manifest.json")
    _add_measurements(root / "models" / COMPONENT / "metadata.json", variants)
    _write_samples(
        root / "samples", tuple(written.variant for written in variants), held_out, expected
    )
    measured = [(written.variant, written.accuracy, written.greatest_error) for written in variants]
    (root / "README.md").write_bytes(model_card(measured, held_out=len(held_out)).encode())
    (root / DIGESTS_FILE).write_bytes(dump_digests(compute_digests(root)))


def _new_variant(written: WrittenVariant, folder: Path) -> NewVariant:
    """The variant for ``create``; its model is written under ``folder``."""
    variant = written.variant
    model_path = folder / variant.name / MODEL_FILE
    model_path.parent.mkdir()
    model_path.write_bytes(written.model.SerializeToString(deterministic=True))
    return NewVariant(
        model=model_path,
        name=variant.name,
        ep=variant.ep,
        device=variant.device,
        provider_options=variant.provider_options,
    )


def _add_value_range(path: Path) -> None:
    """Says what black and white are in a scan, so that pictures can be fed."""
    manifest = json.loads(path.read_bytes())
    manifest["inputs"][0]["value_range"] = [0, 16]
    path.write_bytes(dump_document(manifest))


def _add_measurements(path: Path, variants: tuple[WrittenVariant, ...]) -> None:
    """Adds to each variant's facts what no look at the model file can tell (requirement K24)."""
    metadata = json.loads(path.read_bytes())
    for written in variants:
        facts = metadata["model_variants"][written.variant.name]["metadata"]
        if written.variant.quantization_algorithm is not None:
            facts["quantization_algorithm"] = written.variant.quantization_algorithm
        facts["accuracy"] = round(written.accuracy, 4)
    path.write_bytes(dump_document(metadata))


def _write_samples(
    folder: Path, variants: tuple[Variant, ...], held_out: Scans, expected: Array
) -> None:
    folder.mkdir()
    write_arrays(folder / "held_out_inputs.npz", {INPUT: held_out.images})
    write_arrays(folder / "held_out_outputs.npz", {OUTPUT: expected.astype(np.float32)})
    write_arrays(folder / "held_out_labels.npz", {"labels": held_out.labels})
    reference, *others = variants
    sample = {
        "name": "held-out",
        "description": f"The {len(held_out)} scans that were held out from training.",
        "component": COMPONENT,
        "inputs": "held_out_inputs.npz",
        "expected_outputs": "held_out_outputs.npz",
        "batch_axis": 0,
        "tolerances": _tolerances(reference),
        "variants": {variant.name: {"tolerances": _tolerances(variant)} for variant in others},
        "labels": {"file": "held_out_labels.npz", "name": "labels"},
        "display": {
            "output": OUTPUT,
            "as": "class",
            "classes": [str(digit) for digit in range(10)],
        },
    }
    document = dump_document({"schema_version": "1.0", "samples": [sample]})
    (folder / "samples.json").write_bytes(document)


def _tolerances(variant: Variant) -> dict[str, dict[str, float]]:
    return {
        OUTPUT: {"absolute": variant.absolute_tolerance, "relative": variant.relative_tolerance}
    }
