"""A model of which the fake compiler takes two partitions and the CPU the rest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

from ortpkg.providers.ep_context_workspace import shared_workspace
from tests.ep_context.fake_compiler import NAME

#: Two partitions (MatMul and Exp; Exp), cut by a Neg that stays on the CPU and has a weight of its own.
TEXT = """<ir_version: 10, opset_import: ["" : 21]>
g (float[2, 3] x) => (float[2, 3] y)
<float[3, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 10}, float[3] b = {0.5, -0.5, 0.25}>
{
    m = MatMul(x, w)
    e = Exp(m)
    n = Neg(e)
    s = Add(n, b)
    y = Exp(s)
}"""
X = np.linspace(-0.5, 0.5, 6, dtype=np.float32).reshape(2, 3)
W = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 10]], dtype=np.float32)
B = np.array([0.5, -0.5, 0.25], dtype=np.float32)
EXPECTED = np.exp(-np.exp(X @ W) + B)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "source" / "net.onnx"
    path.parent.mkdir()
    proto = onnx.parser.parse_model(TEXT)
    for tensor in proto.graph.initializer:  # as raw bytes, which can move into external data
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
    onnx.save(proto, path)
    return path


@pytest.fixture(autouse=True)
def _empty_workspace() -> None:
    workspace = shared_workspace(NAME)
    workspace.abandon()
    workspace.clear()
