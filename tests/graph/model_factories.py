"""Small models from text, and tensors with external data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
from onnx import TensorProto, numpy_helper

HEADER = '<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>\n'


def parse(text: str, weights: dict[str, Any] | None = None) -> onnx.ModelProto:
    """A model from ONNX's text form; the usual header is put in front where there is none."""
    proto = onnx.parser.parse_model(text if text.lstrip().startswith("<") else HEADER + text)
    for name, array in (weights or {}).items():
        proto.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
    return proto


def external_tensor(
    name: str, location: str, *, dims: tuple[int, ...] = (4,), **entries: Any
) -> TensorProto:
    """A float tensor whose data lies elsewhere."""
    tensor = TensorProto(
        name=name, data_type=TensorProto.FLOAT, dims=dims, data_location=TensorProto.EXTERNAL
    )
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def save(proto: onnx.ModelProto, folder: Path, name: str = "model.onnx") -> Path:
    path = folder / name
    path.write_bytes(proto.SerializeToString())
    return path
