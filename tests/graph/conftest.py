"""Small models from text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

SaveModel = Callable[..., Path]


def parse(text: str) -> onnx.ModelProto:
    """A model from ONNX's text form; the usual header is put in front where there is none."""
    header = '<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>\n'
    return onnx.parser.parse_model(text if text.lstrip().startswith("<") else header + text)


def add_weight(model: onnx.ModelProto, name: str, array: np.ndarray) -> None:
    model.graph.initializer.append(numpy_helper.from_array(array, name))


@pytest.fixture
def save_model(tmp_path: Path) -> SaveModel:
    """Writes a model under the test's folder and gives its path."""

    def save(model: onnx.ModelProto | str, name: str = "model.onnx") -> Path:
        path = tmp_path / name
        proto = parse(model) if isinstance(model, str) else model
        path.write_bytes(proto.SerializeToString())
        return path

    return save
