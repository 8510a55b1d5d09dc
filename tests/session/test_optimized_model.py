"""What ``optimized_model_filepath`` writes runs in onnxruntime too, and here, with the same results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from ortpkg.session.inference_session import InferenceSession
from ortpkg.session.options import GraphOptimizationLevel
from tests.session.conftest import model_of, options_of

IMAGE = """g (float[N,2,5,5] x) => (float[N,2,5,5] y) <float[2,2,1,1] w = {1, -2, 0.5, 3}, float low = {0},
  float high = {6}, float[2] b = {0.5, -1}>"""
ROWS = """g (float[N,4] x) => (float[N,2] y) <float[4,2] w = {1, -2, 0.5, 3, 0.25, -0.5, 1, 1}, float low = {0},
  float high = {6}, float[2] b = {0.5, -1}>"""
ACTIVATIONS = {
    "SiLU": "s = Sigmoid({0}) y = Mul({0}, s)",
    "HardSwish": "y = HardSwish({0})",
    "Clip": "y = Clip({0}, low, high)",
    "LeakyRelu": "y = LeakyRelu<alpha = 0.1>({0})",
    "HardSigmoid": "y = HardSigmoid({0})",
    "Tanh": "y = Tanh({0})",
}
LAYERS = {"Conv": (IMAGE, "c = Conv(x, w, b)"), "residual": (IMAGE, "r = Conv(x, w, b) c = Add(r, x)")}
LAYERS["Gemm"] = (ROWS, "c = Gemm(x, w, b)")


def run_both_ways(text: str, path: Path, x: Any) -> tuple[onnx.ModelProto, list[Any]]:
    """The written model; the outputs of the session, of one on the written file, and of onnxruntime's on it."""
    onnxruntime = pytest.importorskip("onnxruntime")
    options = options_of(optimized_model_filepath=path, graph_optimization_level=GraphOptimizationLevel.ORT_ENABLE_ALL)
    outputs = []
    with InferenceSession(model_of(text).SerializeToString(), options) as session:
        outputs += session.run(None, {"x": x})
    with InferenceSession(path, options_of()) as session:
        outputs += session.run(None, {"x": x})
    outputs += onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    return onnx.load(path), outputs


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("layer", LAYERS)
def test_written_layers_and_activations_run_in_onnxruntime(layer: str, activation: str, tmp_path: Path) -> None:
    head, body = LAYERS[layer]
    shape = (2, 4) if layer == "Gemm" else (2, 2, 5, 5)
    x = np.random.default_rng(3).standard_normal(shape).astype(np.float32) * 3
    text = f"{head} {{ {body} {ACTIVATIONS[activation].format('c')} }}"

    _, (ours, again, theirs) = run_both_ways(text, tmp_path / "m.onnx", x)

    np.testing.assert_allclose(again, ours, rtol=1e-6)
    np.testing.assert_allclose(theirs, ours, rtol=1e-4, atol=1e-5)
