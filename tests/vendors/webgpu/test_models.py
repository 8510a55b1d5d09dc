"""Models of many kinds on the GPU, held against the embedded engine."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest

from ortpkg import InferenceSession
from ortpkg.foundations.errors import RunError
from tests.vendors.conftest import Loads
from tests.vendors.device_models import DEVICE_MODELS, DeviceModel, largest_error
from tests.vendors.webgpu.conftest import WEBGPU, OnCards

#: SwiftShader has no 16-bit floats.
_HALF = "half"


def _session(model: DeviceModel, ep: str) -> InferenceSession:
    data = model.model.SerializeToString()
    return InferenceSession(data, providers=[ep], enable_fallback=False)


def _counts(session: InferenceSession) -> Mapping[str, int]:
    """Execution provider → how many nodes it runs, as onnxruntime says."""
    counts: dict[str, int] = {}
    for entry in session.get_placement().entries:
        counts[entry.ep_name] = counts.get(entry.ep_name, 0) + entry.node_count
    return counts


@pytest.mark.parametrize("kind", [kind for kind in DEVICE_MODELS if kind != _HALF])
def test_a_model_computes_on_the_gpu_what_the_engine_computes(kind: str, loads: Loads) -> None:
    model = DEVICE_MODELS[kind]()
    feeds = dict(model.feeds)
    session = _session(model, WEBGPU)
    error = largest_error(session.run(None, feeds), _session(model, "cpu").run(None, feeds))
    assert error <= model.tolerance
    counts = _counts(session)
    assert counts[WEBGPU] > 0
    loads(
        kind, "WebGPU, by ortpkg", f"{counts[WEBGPU]} of {sum(counts.values())} nodes; {error:.0e}"
    )


def test_half_precision_fails_with_the_words_of_a_device_that_has_none(loads: Loads) -> None:
    model = DEVICE_MODELS[_HALF]()
    session = _session(model, WEBGPU)
    with pytest.raises(RunError, match="requires f16 but the device does not support it"):
        session.run(None, dict(model.feeds))
    loads(_HALF, "WebGPU, by ortpkg", "SwiftShader has no float16; an error says so")


def test_the_first_try_keeps_half_precision_off_a_device_that_has_none(
    tmp_path: Path, ortpkg: OnCards, loads: Loads
) -> None:
    path = tmp_path / "half.onnx"
    onnx.save(DEVICE_MODELS[_HALF]().model, path)
    package = tmp_path / "half.ortpackage"
    variants = ("--variant", f"webgpu:gpu={path}", "--variant", f"cpu={path}")
    assert ortpkg("create", package, *variants).code == 0
    inputs = tmp_path / "x.npy"
    np.save(inputs, DEVICE_MODELS[_HALF]().feeds["x"])
    without = ortpkg("run", package, "--input", f"x={inputs}", "--no-canary")
    assert "requires f16 but the device does not support it" in without.err
    done = ortpkg("run", package, "--input", f"x={inputs}", "--canary")
    assert done.code == 0, done.err
    assert "CPUExecutionProvider" in done.err
    loads(_HALF, "WebGPU, ortpkg run --canary", "tried first, then on the CPU")


def test_sizes_may_change_from_run_to_run() -> None:
    model = DEVICE_MODELS["attention"]()
    session, engine = _session(model, WEBGPU), _session(model, "cpu")
    for batch, length in ((1, 1), (3, 9), (2, 4), (3, 9)):
        rng = np.random.default_rng(length)
        feeds = {
            "x": rng.standard_normal((batch, length, 32)).astype(np.float32),
            "mask": np.zeros((batch, 1, 1, length), np.float32),
        }
        error = largest_error(session.run(None, feeds), engine.run(None, feeds))
        assert error <= model.tolerance


def test_an_index_out_of_range_is_an_error() -> None:
    model = DEVICE_MODELS["text-embedding"]()
    session = _session(model, WEBGPU)
    feeds = {**model.feeds, "ids": np.full((3, 7), 50)}
    with pytest.raises(RunError, match="index 50 is out of range for an axis of size 50"):
        session.run(None, feeds)


def test_two_sessions_run_in_threads_of_one_process() -> None:
    models = [DEVICE_MODELS[kind]() for kind in ("attention", "convolutional")]
    sessions = [_session(model, WEBGPU) for model in models]
    expected = [
        session.run(None, dict(model.feeds))
        for session, model in zip(sessions, models, strict=True)
    ]

    def run(number: int) -> float:
        index = number % len(models)
        outputs = sessions[index].run(None, dict(models[index].feeds))
        return largest_error(outputs, expected[index])

    with ThreadPoolExecutor(4) as threads:
        assert max(threads.map(run, range(60))) <= 1e-5
