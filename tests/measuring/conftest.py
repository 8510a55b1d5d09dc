"""Packages to measure, a plug-in that fails in every way, and records of one's own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import ortpkg
from tests.done import Done as Done
from tests.warm.popen import warm_popen

HERE = Path(__file__).parent
DIGITS = HERE.parents[1] / "sample_packages" / "digits.ortpackage"
FAULTY_EP = "FaultyExecutionProvider"


@pytest.fixture(autouse=True)
def _warm_processes(warm_processes: None) -> None:
    """What is started here is what compiles and runs.

    How it starts is tested in tests/isolation.
    """


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No records but those that the test makes."""
    monkeypatch.setenv("ORTPKG_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


@dataclass(frozen=True)
class CommandLine:
    """``ortpkg`` in a process of its own."""

    environment: Mapping[str, str]

    def __call__(self, *words: object, **environment: str) -> Done:
        done = subprocess.run(
            [sys.executable, "-m", "ortpkg", *map(str, words)],
            capture_output=True,
            text=True,
            env={**self.environment, **environment},
            check=False,
            timeout=250,
        )
        return Done(code=done.returncode, out=done.stdout, err=done.stderr)


LineMaker = Callable[[Path], CommandLine]


@pytest.fixture(scope="session")
def command_line(tmp_path_factory: pytest.TempPathFactory, answers: Path) -> LineMaker:
    """Makes a command line with the faulty plug-in, and caches and records in a folder.

    What the plug-in and the other backends answered is copied to it with the plug-in's files, whose
    times are the same.
    """
    first = tmp_path_factory.mktemp("faulty")
    information = first / "plugins" / "faulty-1.0.dist-info"
    information.mkdir(parents=True)
    shutil.copy(HERE / "faulty_ep.py", first / "plugins" / "faulty_ep.py")
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(
        f"[ortpkg.execution_providers]\n{FAULTY_EP} = faulty_ep:FaultyFactory\n"
    )
    shutil.copytree(answers, first / "cache")
    with warm_popen():
        asked = _line_below(first)("devices", "--ep", FAULTY_EP, ORTPKG_PROBE_TIMEOUT="300")
    assert asked.code == 0, asked.err

    def make(folder: Path) -> CommandLine:
        shutil.copytree(first / "plugins", folder / "plugins")
        shutil.copytree(first / "cache", folder / "cache")
        return _line_below(folder)

    return make


def _line_below(folder: Path) -> CommandLine:
    root = str(Path(ortpkg.__file__).parents[1])
    return CommandLine(
        environment={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(folder / "plugins"), root]),
            "ORTPKG_STATE_DIR": str(folder / "state"),
            "ORTPKG_CACHE_DIR": str(folder / "cache"),
        }
    )


def scale_model(path: Path, *, factor: float = 2.0, input_type: str = "float[N, 3]") -> Path:
    """An ONNX file ``y = x * factor``."""
    text = f"""
        <ir_version: 8, opset_import: ["" : 17]>
        scale ({input_type} x) => (float[N, 3] y) <float factor = {{{factor}}}> {{ y = Mul(x, factor) }}
    """
    onnx.save(onnx.parser.parse_model(text), path)
    return path


def add_samples(
    root: Path, *, component: str | None = None, count: int = 4, expects: bool = True
) -> None:
    """Samples for ``y = 2 x``."""
    folder = root / "samples"
    folder.mkdir()
    inputs = np.arange(3 * count, dtype=np.float32).reshape(count, 3)
    np.savez(folder / "inputs.npz", x=inputs)
    entry: dict[str, Any] = {"name": "few", "inputs": "inputs.npz", "batch_axis": 0}
    if component is not None:
        entry["component"] = component
    if expects:
        np.savez(folder / "outputs.npz", y=inputs * 2)
        entry |= {
            "expected_outputs": "outputs.npz",
            "tolerances": {"y": {"absolute": 1e-4, "relative": 1e-4}},
        }
    (folder / "samples.json").write_text(json.dumps({"schema_version": "1.0", "samples": [entry]}))
    ortpkg.record_digests(root)


@pytest.fixture(scope="session")
def made_scale_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What :func:`scale_package` is a copy of."""
    folder = tmp_path_factory.mktemp("scale")
    model = scale_model(folder / "double.onnx")
    root = folder / "scale.ortpackage"
    ortpkg.create(root, [ortpkg.NewVariant(model=model, name="cpu", ep="cpu")])
    add_samples(root)
    return root


@pytest.fixture
def scale_package(made_scale_package: Path, tmp_path: Path) -> Path:
    """One component with one CPU variant, ``y = 2 x``, and four samples."""
    return Path(shutil.copytree(made_scale_package, tmp_path / made_scale_package.name))
