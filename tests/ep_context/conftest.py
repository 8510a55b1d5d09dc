"""A model of which the fake compiler takes two partitions and the CPU the rest."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

import ortpkg
from ortpkg.providers import plugins
from ortpkg.providers.ep_context_workspace import shared_workspace
from tests.ep_context.fake_compiler import NAME

ROOT = Path(__file__).resolve().parents[2]
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


@pytest.fixture(scope="session")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What backends answered; asked once for all tests."""
    return tmp_path_factory.mktemp("facts")


@pytest.fixture
def machine(tmp_path: Path, facts: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A machine with the fake compiler installed, and nothing remembered; its state directory."""
    plugin = tmp_path / "plugin"
    information = plugin / "fake-1.0.dist-info"
    information.mkdir(parents=True)
    (plugin / "fake_plugin_module.py").write_text("from tests.ep_context.fake_plugin import FakeFactory\n")
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: fake\nVersion: 1.0\n")
    points = f"[ortpkg.execution_providers]\n{NAME} = fake_plugin_module:FakeFactory\n"
    (information / "entry_points.txt").write_text(points)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(plugin), str(ROOT)]))
    monkeypatch.setenv("ORTPKG_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(facts))
    monkeypatch.setenv("ORTPKG_PROBE_TIMEOUT", "300")  # however busy the machine is
    monkeypatch.setattr(sys, "path", [str(plugin), *sys.path])
    plugins.installed_plugins.cache_clear()
    yield tmp_path / "state"
    plugins.installed_plugins.cache_clear()


@pytest.fixture
def package(model: Path, tmp_path: Path) -> Path:
    root = tmp_path / "net.ortpackage"
    ortpkg.create(root, [ortpkg.NewVariant(model=model, name="plain", ep="cpu")])
    return root
