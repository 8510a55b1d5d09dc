"""The digits package by its documents, read as plain JSON and not by our reader."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

DIGITS = Path(__file__).resolve().parents[2] / "sample_packages" / "digits.ortpackage"
VARIANTS = ("cpu-fp32", "cpu-int8", "openvino-npu", "openvino-gpu", "cuda")

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Digits:
    """The package's documents and samples, and the judgement of a variant's logits."""

    root: Path
    manifest: dict[str, Any]
    metadata: dict[str, Any]
    sample: dict[str, Any]
    images: FloatArray
    expected: FloatArray
    labels: npt.NDArray[np.int64]

    def model_path(self, variant: str) -> Path:
        return (
            self.root
            / "models"
            / "classifier"
            / variant
            / str(self.variants[variant]["model_file"])
        )

    @property
    def variants(self) -> dict[str, Any]:
        variants: dict[str, Any] = self.metadata["model_variants"]
        return variants

    def accuracy(self, logits: FloatArray) -> float:
        return float(np.mean(np.argmax(logits, axis=1) == self.labels[: len(logits)]))

    def greatest_excess(self, variant: str, logits: FloatArray) -> float:
        """By how much the worst logit exceeds the variant's tolerance.

        Negative where all are within it.
        """
        tolerances = self.sample["variants"].get(variant, self.sample)["tolerances"]["logits"]
        expected = self.expected[: len(logits)]
        allowed = tolerances["absolute"] + tolerances["relative"] * np.abs(expected)
        return float(np.max(np.abs(logits - expected) - allowed))


@pytest.fixture(scope="session")
def digits() -> Digits:
    (sample,) = _document("samples/samples.json")["samples"]
    return Digits(
        root=DIGITS,
        manifest=_document("manifest.json"),
        metadata=_document("models/classifier/metadata.json"),
        sample=sample,
        images=_array(sample["inputs"], "image"),
        expected=_array(sample["expected_outputs"], "logits"),
        labels=_array(sample["labels"]["file"], sample["labels"]["name"]),
    )


def _document(path: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((DIGITS / path).read_bytes())
    return document


def _array(file: str, name: str) -> npt.NDArray[Any]:
    with np.load(DIGITS / "samples" / file, allow_pickle=False) as arrays:
        array: npt.NDArray[Any] = arrays[name]
        return array
