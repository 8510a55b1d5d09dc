"""onnxruntime-ggml: its execution provider is called "ggml", and takes whole models or none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import ortpkg
from tests.vendors.conftest import Loads, Ortpkg
from tests.vendors.device_models import DEVICE_MODELS, largest_error

GGML = "ggml"
pytestmark = [pytest.mark.vendors, pytest.mark.timeout(300)]


def test_devices_lists_it_by_the_name_that_the_wheel_gives_it(ortpkg: Ortpkg) -> None:
    offered = [
        (entry["backend"], entry["ep_version"], entry["device"]["type"])
        for entry in ortpkg("devices", "--json").json["ep_devices"]
        if entry["ep"] == GGML
    ]
    assert offered == [("onnxruntime", "0.2.0", "cpu")]


#: It keeps weights in float16.
@pytest.mark.parametrize(
    ("kind", "tolerance"),
    [("branches", 1e-5), ("loop", 1e-5), ("half", 0.01), ("decoder-step", 0.01)],
)
def test_a_model_that_it_takes_computes_what_the_engine_computes(
    kind: str, tolerance: float, loads: Loads
) -> None:
    model = DEVICE_MODELS[kind]()
    data, feeds = model.model.SerializeToString(), dict(model.feeds)
    session = ortpkg.InferenceSession(data, providers=[GGML], enable_fallback=False)
    engine = ortpkg.InferenceSession(data, providers=["cpu"])
    error = largest_error(session.run(None, feeds), engine.run(None, feeds))
    assert error <= tolerance
    assert session.get_placement().entries[0].ep_name == GGML
    assert session.get_placement().entries[0].node_count
    loads(kind, "ggml, by ortpkg", f"whole; {error:.0e}")


def test_a_package_with_a_variant_for_it_is_selected_and_runs(
    tmp_path: Path, ortpkg: Ortpkg, loads: Loads
) -> None:
    model = DEVICE_MODELS["half"]().model
    onnx.save(model, tmp_path / "half.onnx")
    package = tmp_path / "half.ortpackage"
    created = ortpkg("create", package, "--variant", f"{GGML}:cpu={tmp_path / 'half.onnx'}")
    assert created.code == 0, created.err
    chosen = ortpkg("select", package)
    assert "on ggml (onnxruntime) on CPU" in chosen.out, chosen.err
    inputs = tmp_path / "inputs.npz"
    np.savez(inputs, x=DEVICE_MODELS["half"]().feeds["x"])
    done = ortpkg("run", package, "--input", inputs, "--json")
    assert done.code == 0, done.err
    loads("half, in a package", "ggml, ortpkg run", "selected and run")
