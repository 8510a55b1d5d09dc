"""Pipelines whose components run on the GPU: what they hand to each other stays there."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest

import ortpkg
from ortpkg.package.package_info import PackageFormat, PackageInfo
from ortpkg.runtime.pipelines.pipeline_session import PipelineSession
from tests.vendors.conftest import Loads
from tests.vendors.device_models import DEVICE_MODELS, largest_error
from tests.vendors.webgpu.conftest import TINYCHAR, WEBGPU
from tests.vendors.webgpu.copies import noted_copies


def _named(kind: str, names: Mapping[str, str]) -> bytes:
    """Return a model whose inputs and outputs have other names."""
    model = DEVICE_MODELS[kind]().model
    for node in model.graph.node:
        for values in (node.input, node.output):
            values[:] = [names.get(value, value) for value in values]
    for value in (*model.graph.input, *model.graph.output):
        value.name = names.get(value.name, value.name)
    onnx.checker.check_model(model)
    data: bytes = model.SerializeToString()
    return data


def _chain(ep: str, tmp_path: Path) -> PipelineSession:
    """Two encoder layers, the second on what the first makes."""
    models = {
        "first": _named("attention", {"y": "hidden"}),
        "second": _named("attention", {"x": "hidden"}),
    }
    sessions = {
        name: ortpkg.InferenceSession(data, providers=[ep], enable_fallback=False)
        for name, data in models.items()
    }
    package = PackageInfo(
        root=tmp_path, name="p", version=None, format=PackageFormat.METADATA, components=()
    )
    return PipelineSession(package, sessions)


def test_two_models_hand_a_value_on_without_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loads: Loads
) -> None:
    feeds = dict(DEVICE_MODELS["attention"]().feeds)
    chain, engine = _chain(WEBGPU, tmp_path), _chain("cpu", tmp_path)
    copies = noted_copies(monkeypatch)
    assert largest_error(chain.run(None, feeds), engine.run(None, feeds)) < 1e-4
    assert copies == []
    fed = [session.get_device_borders() for session in chain.sessions.values()]  # type: ignore[attr-defined]
    assert fed[0].outputs == {"hidden": "WebGpu:0"}
    assert fed[1].inputs["hidden"] == "WebGpu:0"
    loads("attention, twice", "WebGPU, a pipeline", "handed on without a copy")


def test_a_decoder_keeps_its_cache_on_the_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loads: Loads
) -> None:
    folder = Path(shutil.copytree(TINYCHAR, tmp_path / "tinychar.ortpackage"))
    package = ortpkg.ModelPackage(folder)
    sessions = {}
    for name in ("prefill", "decode"):
        model = folder / f"models/tinychar/cpu-fp32/{name}.onnx"
        sessions[name] = ortpkg.InferenceSession(model, providers=[WEBGPU], enable_fallback=False)
    pipeline = PipelineSession(package.info, sessions)
    inputs = np.load(folder / "samples/a-prayer.inputs.npz")
    expected = np.load(folder / "samples/a-prayer.outputs.npz")
    copies = noted_copies(monkeypatch)
    (text,) = pipeline.run(None, {name: inputs[name] for name in inputs.files})
    np.testing.assert_array_equal(text, expected[expected.files[0]])
    assert copies == []
    assert sessions["decode"].get_device_borders().outputs["new_cache"] == "WebGpu:0"
    loads("tinychar", "WebGPU, a pipeline", f"{len(text)} rounds, the cache never copied")
