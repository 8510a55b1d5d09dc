"""What ``optimized_model_filepath`` writes runs in onnxruntime and here, alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx.numpy_helper
import pytest

from ortpkg.session.inference_session import InferenceSession
from ortpkg.session.options import GraphOptimizationLevel
from tests.session.conftest import RESIDUAL, model_of, options_of

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
LAYERS = {
    "Conv": (IMAGE, "c = Conv(x, w, b)"),
    "residual": (IMAGE, "r = Conv(x, w, b) c = Add(r, x)"),
}
LAYERS["Gemm"] = (ROWS, "c = Gemm(x, w, b)")


def run_both_ways(
    text: str, path: Path, arrays: dict[str, Any], weights: dict[str, Any] | None = None
) -> tuple[onnx.ModelProto, list[Any]]:
    """The written model; outputs of the session, of one on it, and of onnxruntime's."""
    onnxruntime = pytest.importorskip("onnxruntime")
    options = options_of(
        optimized_model_filepath=path,
        graph_optimization_level=GraphOptimizationLevel.ORT_ENABLE_ALL,
    )
    model, outputs = model_of(text), []
    feeds = {name: array.astype(np.float32) for name, array in arrays.items()}
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(w, name) for name, w in (weights or {}).items()
    )
    with InferenceSession(model.SerializeToString(), options) as session:
        outputs += session.run(None, feeds)
    with InferenceSession(path, options_of()) as session:
        outputs += session.run(None, feeds)
    outputs += onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(
        None, feeds
    )
    return onnx.load(path), outputs


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("layer", LAYERS)
def test_written_layers_and_activations_run_in_onnxruntime(
    layer: str, activation: str, tmp_path: Path
) -> None:
    head, body = LAYERS[layer]
    shape = (2, 4) if layer == "Gemm" else (2, 2, 5, 5)
    x = np.random.default_rng(3).standard_normal(shape) * 3
    text = f"{head} {{ {body} {ACTIVATIONS[activation].format('c')} }}"

    _, (ours, again, theirs) = run_both_ways(text, tmp_path / "m.onnx", {"x": x})

    np.testing.assert_allclose(again, ours, rtol=1e-6)
    np.testing.assert_allclose(theirs, ours, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mask", ["2, 1, 1, 3", "1, 1, 3, 3", "2, 2, 3, 3"])
@pytest.mark.parametrize("biased", [False, True])
def test_written_attention_runs_in_onnxruntime(mask: str, biased: bool, tmp_path: Path) -> None:
    """One mask for all queries, one per query, one per head; with biases and without."""
    generator = np.random.default_rng(4)
    names = "qkv"
    added = "".join(f"{n}1 = Add({n}0, b)" if biased else f"{n}1 = Identity({n}0)" for n in names)
    text = f"""g (float[2,3,4] x, float[{mask}] m) => (float[2,3,4] y) <int64[4] heads = {{0, 0, 2, 2}},
      int64[3] flat = {{0, 0, 4}}, float[4] b = {{1, -1, 2, 0.5}}> {{
        q0 = MatMul(x, wq) k0 = MatMul(x, wk) v0 = MatMul(x, wv) {added}
        q2 = Reshape(q1, heads) k2 = Reshape(k1, heads) v2 = Reshape(v1, heads)
        q = Transpose<perm = [0, 2, 1, 3]>(q2) k = Transpose<perm = [0, 2, 3, 1]>(k2)
        v = Transpose<perm = [0, 2, 1, 3]>(v2)
        s = MatMul(q, k) n = Add(s, m) w = Softmax<axis = -1>(n) c = MatMul(w, v)
        t = Transpose<perm = [0, 2, 1, 3]>(c) y = Reshape(t, flat)
    }}"""
    weights = {f"w{n}": generator.standard_normal((4, 4)).astype(np.float32) for n in names}
    shape = tuple(int(size) for size in mask.split(","))
    feeds = {"x": generator.standard_normal((2, 3, 4)), "m": generator.standard_normal(shape)}

    written, (ours, again, theirs) = run_both_ways(text, tmp_path / "m.onnx", feeds, weights)

    assert ("Attention" in {node.op_type for node in written.graph.node}) is (mask != "2, 1, 1, 3")
    np.testing.assert_allclose(again, ours, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(theirs, ours, rtol=1e-4, atol=1e-5)


def test_larger_initializers_go_into_the_file_that_an_entry_names(tmp_path: Path) -> None:
    path = tmp_path / "sub" / "optimized.onnx"
    path.parent.mkdir()
    for size, is_moved in (("256", True), ("257", False)):
        options = options_of(optimized_model_filepath=str(path))
        options.add_session_config_entry(
            "session.optimized_model_external_initializers_file_name", f"{size}.bin"
        )
        options.add_session_config_entry(
            "session.optimized_model_external_initializers_min_size_in_bytes", size
        )
        model = model_of(RESIDUAL).SerializeToString()
        with InferenceSession(model, options) as session, InferenceSession(path) as written:
            feeds = {"x": np.ones((1, 8), np.float32)}
            np.testing.assert_array_equal(written.run(None, feeds)[0], session.run(None, feeds)[0])
        assert (path.with_name(f"{size}.bin").stat().st_size >= 256) is is_moved
