"""A model of which the fake compiler takes two partitions and the CPU the rest."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

import ortpkg
from ortpkg.foundations.isolation import backend_probe
from ortpkg.runtime.ep_context.ep_context_workspace import shared_workspace
from ortpkg.runtime.providers import plugins
from tests.ep_context.compiling import compiled, without_share
from tests.ep_context.fake_compiler import NAME
from tests.warm.popen import warm_popen

ROOT = Path(__file__).resolve().parents[2]
#: Two partitions (MatMul and Exp; Exp), cut by a Neg that stays on the CPU and has a weight of its
#: own.
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


@pytest.fixture(autouse=True)
def _warm_processes(warm_processes: None) -> None:
    """What is started here is what compiles and runs.

    How it starts is tested in tests/isolation.
    """


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return _saved_model(tmp_path / "source")


def _saved_model(folder: Path) -> Path:
    folder.mkdir()
    proto = onnx.parser.parse_model(TEXT)
    for tensor in proto.graph.initializer:  # as raw bytes, which can move into external data
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
    onnx.save(proto, folder / "net.onnx")
    return folder / "net.onnx"


@pytest.fixture(autouse=True)
def _empty_workspace() -> None:
    workspace = shared_workspace(NAME)
    workspace.abandon()
    workspace.clear()


@dataclass(frozen=True)
class Installed:
    """A folder with the fake compiler's files, all backends' answers, what it compiled."""

    folder: Path

    @property
    def plugin(self) -> Path:
        return self.folder / "plugin"

    @property
    def facts(self) -> Path:
        return self.folder / "cache"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def package(self) -> Path:
        return self.folder / "net.ortpackage"

    def set_up(self, patch: pytest.MonkeyPatch) -> None:
        """Lets this process and its children find it, and this one forget all answers."""
        patch.setenv("PYTHONPATH", os.pathsep.join([str(self.plugin), str(ROOT)]))
        patch.setenv("ORTPKG_STATE_DIR", str(self.state))
        patch.setenv("ORTPKG_CACHE_DIR", str(self.facts))
        patch.setenv("ORTPKG_PROBE_TIMEOUT", "300")  # however busy the machine is
        patch.setattr(sys, "path", [str(self.plugin), *sys.path])
        patch.setattr(backend_probe, "_ANSWERS", {})
        plugins.installed_plugins.cache_clear()


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The fake compiler, asked and used once: each test works on copies of equal times."""
    made = Installed(tmp_path_factory.mktemp("installed"))
    information = made.plugin / "fake-1.0.dist-info"
    information.mkdir(parents=True)
    (made.plugin / "fake_plugin_module.py").write_text(
        "from tests.ep_context.fake_plugin import FakeFactory\n"
    )
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: fake\nVersion: 1.0\n")
    points = f"[ortpkg.execution_providers]\n{NAME} = fake_plugin_module:FakeFactory\n"
    (information / "entry_points.txt").write_text(points)
    with pytest.MonkeyPatch.context() as patch, warm_popen():
        made.set_up(patch)
        model = _saved_model(made.folder / "source")
        ortpkg.create(made.package, [ortpkg.NewVariant(model=model, name="plain", ep="cpu")])
        compiled(made.package, NAME)
        without_share(made.package)  # a library would be preferred to what is compiled in part
        ortpkg.ModelPackage(made.package).select()
    plugins.installed_plugins.cache_clear()
    for fact in (made.facts / "facts").glob("plugin_probe-*.json"):
        if "create_provider" in fact.read_text():  # each test finds out whether it can be made
            fact.unlink()
    return made


@pytest.fixture
def machine(
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    installed: Installed,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Path]:
    """A machine with the fake compiler, of which is known what it offers, and nothing compiled.

    Its state directory.
    """
    here = Installed(tmp_path)
    shutil.copytree(installed.plugin, here.plugin)
    here.set_up(monkeypatch)
    facts = tmp_path_factory.mktemp("facts")  # not among what tests look at
    shutil.copytree(installed.facts, facts, dirs_exist_ok=True)
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(facts))
    yield here.state
    plugins.installed_plugins.cache_clear()


@pytest.fixture
def package(model: Path, tmp_path: Path) -> Path:
    root = tmp_path / "net.ortpackage"
    ortpkg.create(root, [ortpkg.NewVariant(model=model, name="plain", ep="cpu")])
    return root


@pytest.fixture
def fake_package(machine: Path, installed: Installed) -> Path:
    """``package`` after ``compiled(package, NAME)`` on this machine."""
    here = Installed(machine.parent)
    shutil.copytree(installed.package, here.package)
    shutil.copytree(installed.state, here.state)
    return here.package
