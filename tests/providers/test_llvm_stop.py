"""Generated code ends soon after it is told to, however long its largest piece of work is."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

from ortpkg.compiler.machine_code.cpu_targets import host_target
from ortpkg.foundations.errors import CancelledError
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import RunOptions

pytestmark = pytest.mark.skipif(host_target() is None, reason="no code is compiled for this CPU")

#: Much more than it takes, as other processes may have the machine.
_SOON_S = 1.5
_MODELS = {
    "product": """(float[m, k] x, float[k, n] w) => (float[m, n] y) { y = MatMul (x, w) }""",
    "pool": """(float[1, 4, h, w] x) => (float[1, 4, a, b] y) {
        y = MaxPool <kernel_shape = [256, 256], strides = [16, 16]> (x) }""",
    "recurrence": """(float[s, 1, 8] x, float[1, 256, 8] w, float[1, 256, 64] r)
        => (float[s, 1, 1, 64] y) { y = LSTM <hidden_size = 64> (x, w, r) }""",
}
_SHAPES: dict[str, dict[str, tuple[int, ...]]] = {
    "product": {"x": (6144, 6144), "w": (6144, 6144)},
    "pool": {"x": (1, 4, 2048, 2048)},
    "recurrence": {"x": (2_000_000, 1, 8), "w": (1, 256, 8), "r": (1, 256, 64)},
}


@pytest.mark.parametrize("name", _MODELS)
def test_the_largest_steps_end_soon_after_terminate(name: str, tmp_path: Path) -> None:
    text = f'<ir_version: 10, opset_import: ["" : 21]> net {_MODELS[name]}'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    feeds = {key: np.zeros(shape, np.float32) for key, shape in _SHAPES[name].items()}
    options = RunOptions()
    told: list[float] = []

    def terminate() -> None:
        told.append(time.perf_counter())
        options.terminate = True

    with InferenceSession(tmp_path / "model.onnx", providers=["llvm", "cpu"]) as session:
        assert session.get_placement().entries[0].node_count == 1
        timer = threading.Timer(0.2, terminate)
        timer.start()
        with pytest.raises(CancelledError):
            session.run(None, feeds, options)
        took_s = time.perf_counter() - told[0]
    assert took_s < _SOON_S
