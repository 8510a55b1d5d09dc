"""Real execution providers that vendors ship as wheels for onnxruntime.

``make vendors`` installs them.

Everything runs as a user runs it: in processes of its own. Without the wheels nothing here is
    collected.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from tests.done import Done as Done
from tests.vendors.plain_onnxruntime import MODULES, REPOSITORY

DIGITS = REPOSITORY / "sample_packages/digits.ortpackage"
_WITHOUT_BATCH = "fixed.onnx"
collect_ignore_glob = [] if all(map(importlib.util.find_spec, MODULES.values())) else ["test_*.py"]

#: What was found to load where, in the order of the tests: model, where, what came of it.
_rows: list[tuple[str, str, str]] = []


Ortpkg = Callable[..., Done]
Loads = Callable[[str, str, str], None]


@pytest.fixture
def loads() -> Loads:
    """Notes a row of the table: a model, where it was tried, what came of it."""
    return lambda model, where, outcome: _rows.append((model, where, outcome))


@pytest.fixture(scope="session")
def ortpkg(tmp_path_factory: pytest.TempPathFactory) -> Ortpkg:
    """Runs ``ortpkg WORD...`` in a process; ``emulates`` is what ORTPKG_EMULATED_DEVICES names."""
    cache = tmp_path_factory.mktemp("cache")

    def run(*words: object, emulates: str = "") -> Done:
        environment = {
            key: value for key, value in os.environ.items() if not key.startswith("ORTPKG_EMULATED")
        }
        environment |= {
            "ORTPKG_CACHE_DIR": str(cache),
            "COLUMNS": "200",
            "ORTPKG_EMULATED_DEVICES": emulates,
        }
        command = [sys.executable, "-m", "ortpkg", *map(str, words)]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=280
        )
        return Done(code=done.returncode, out=done.stdout, err=done.stderr)

    return run


@pytest.fixture(scope="session")
def fixed_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The digits' float32 model for a batch of 1: QNN takes fixed shapes only."""
    model = onnx.load(DIGITS / "models/classifier/cpu-fp32/model.onnx")
    for value in (*model.graph.input, *model.graph.output):
        for dimension in value.type.tensor_type.shape.dim:
            if dimension.dim_param:
                dimension.dim_value = 1
    path = tmp_path_factory.mktemp("model") / _WITHOUT_BATCH
    onnx.save(onnx.shape_inference.infer_shapes(model), path)
    return path


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the digits package, for the test to change."""
    return Path(shutil.copytree(DIGITS, tmp_path / "digits.ortpackage"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not _rows:
        return
    terminalreporter.section("what loads where")
    widths = [max(len(row[column]) for row in _rows) for column in (0, 1)]
    for model, where, outcome in _rows:
        terminalreporter.line(f"{model:<{widths[0]}}  {where:<{widths[1]}}  {outcome}")
