"""Modules for authors of extensions offer the same names to Python and to type checkers."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

MODULES = ["execution_providers", "transformers"]


@pytest.fixture(params=MODULES)
def module(request: pytest.FixtureRequest) -> ModuleType:
    return importlib.import_module(f"ortpkg.api.{request.param}")


def test_type_checkers_read_the_names_that_python_finds(module: ModuleType) -> None:
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    read = {
        (node.module, name.name, name.asname)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    assert read == {(origin, name, name) for name, origin in module.MODULE_OF_NAME.items()}


def test_each_name_is_the_object_of_its_module(module: ModuleType) -> None:
    for name, origin in module.MODULE_OF_NAME.items():
        assert getattr(module, name) is getattr(importlib.import_module(origin), name)
    assert dir(module) == sorted(module.MODULE_OF_NAME)
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = module.Nothing


def test_a_factory_s_imports_do_not_load_numpy() -> None:
    program = """
import sys
from ortpkg.api.execution_providers import CpuDevicesEpFactory, EpDevice, HardwareDevice
print("numpy" in sys.modules, "onnx" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "False"]
