"""What ``optimized_model_filepath`` writes runs in onnxruntime and here, alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import GraphOptimizationLevel
from tests.session.conftest import RESIDUAL, model_of, options_of

IMAGE = """g (float[1,2,5,5] x) => (float[1,2,7,6] y) <float[2,2,1,1] w = {1, -2, 0.5, 3}, float[2] b = {0.5, -1},
  float[2] s = {2, 3}, int64[8] pads = {0, 0, 1, 0, 0, 0, 1, 1}, float[2,1,1] t = {4, 5}>"""
LAYERS = "p = Pad(x, pads) c = Conv(p, w) n = BatchNormalization(c, s, b, b, s) a = Mul(n, t) y = Relu(a)"


def run_both_ways(
    text: str, path: Path, arrays: dict[str, Any]
) -> tuple[onnx.ModelProto, list[Any]]:
    """The written model; outputs of the session, of one on it, and of onnxruntime's."""
    onnxruntime = pytest.importorskip("onnxruntime")
    options = options_of(
        optimized_model_filepath=path,
        graph_optimization_level=GraphOptimizationLevel.ORT_ENABLE_ALL,
    )
    model, outputs = model_of(text), []
    feeds = {name: array.astype(np.float32) for name, array in arrays.items()}
    with InferenceSession(model.SerializeToString(), options) as session:
        outputs += session.run(None, feeds)
    with InferenceSession(path, options_of()) as session:
        outputs += session.run(None, feeds)
    outputs += onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(
        None, feeds
    )
    return onnx.load(path), outputs


def test_a_written_model_runs_in_onnxruntime(tmp_path: Path) -> None:
    x = np.random.default_rng(3).standard_normal((1, 2, 5, 5)) * 3

    written, (ours, again, theirs) = run_both_ways(
        f"{IMAGE} {{ {LAYERS} }}", tmp_path / "m.onnx", {"x": x}
    )

    assert [node.op_type for node in written.graph.node] == ["Conv", "Relu"]
    np.testing.assert_allclose(again, ours, rtol=1e-6)
    np.testing.assert_allclose(theirs, ours, rtol=1e-4, atol=1e-5)


def test_weights_of_a_written_model_stay_quantized(tmp_path: Path) -> None:
    text = """g (float[2,2] x) => (float[2,2] y) <float s = {0.5}, int8[2,2] w = {1, 2, 3, 4}>
    { f = DequantizeLinear(w, s) y = MatMul(x, f) }"""

    written, (ours, again, theirs) = run_both_ways(text, tmp_path / "m.onnx", {"x": np.eye(2)})

    assert [node.op_type for node in written.graph.node] == ["DequantizeLinear", "MatMul"]
    np.testing.assert_array_equal(again, ours)
    np.testing.assert_array_equal(theirs, ours)


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
