"""What is served: the sample package of digits, ResNet-50 and BERT-base with random weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import ortpkg
from benchmarks.zoo.bert import BertSize, bert
from benchmarks.zoo.light_models import real_light_model

DIGITS = Path(__file__).resolve().parents[2] / "sample_packages/digits.ortpackage"
MODELS = ("digits", "resnet50", "bert")
_SEED = 20
_DATATYPES = {"float32": "FP32", "int64": "INT64"}

Arrays = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One model.

    Attributes:
        name: what clients call it.
        package: for ortpkg.
        model: the same as an ONNX file.
        options: of ``ortpkg serve``, so that it runs that file, and by onnxruntime.
    """

    name: str
    package: Path
    model: Path
    options: tuple[str, ...] = ("--backend", "onnxruntime")

    def inputs(self) -> Arrays:
        """Of one request."""
        generator = np.random.default_rng(_SEED)
        session = ortpkg.InferenceSession(self.model, backend="onnxruntime")
        found: Arrays = {}
        for each in session.get_inputs():
            shape = [size if isinstance(size, int) else 1 for size in each.shape]
            if each.type == "tensor(int64)":
                found[each.name] = np.ones(shape, np.int64)  # words, and a mask of all of them
            else:
                found[each.name] = generator.standard_normal(shape, np.float32)
        return found


def subject(name: str, folder: Path) -> Subject:
    """The model of that name; what has to be made for it lies in ``folder``, and is made once."""
    if name == "digits":
        return Subject(
            name=name,
            package=DIGITS,
            model=DIGITS / "models/classifier/cpu-fp32/model.onnx",
            options=("--backend", "onnxruntime", "--variant", "cpu-fp32"),
        )
    model, package = folder / f"{name}.onnx", folder / f"{name}.ortpackage"
    if not package.exists():
        made = (
            real_light_model("resnet50", seed=_SEED)
            if name == "resnet50"
            else bert(BertSize(), seed=_SEED)
        )
        onnx.save(made, model)
        ortpkg.create(package, [ortpkg.NewVariant(model=model)], name=name, version="1")
    return Subject(name=name, package=package, model=model)


def tensors_of(arrays: Arrays) -> list[dict[str, Any]]:
    """Their names, datatypes and shapes in the protocol's words."""
    return [
        {"name": name, "datatype": _DATATYPES[array.dtype.name], "shape": list(array.shape)}
        for name, array in arrays.items()
    ]
