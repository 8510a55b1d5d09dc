"""What ``import ortpkg`` costs and offers."""

import subprocess
import sys
from pathlib import Path

import pytest

import ortpkg

DIGITS = Path(__file__).resolve().parents[1] / "sample_packages" / "digits.ortpackage"


def modules_loaded_by(program: str) -> set[str]:
    code = f"{program}\nimport sys; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split("\n")[-2].split())


@pytest.mark.parametrize("heavy", ["numpy", "onnx", "jsonschema", "typer", "rich", "openvino", "onnxruntime"])
def test_import_loads_nothing_heavy(heavy: str) -> None:
    assert heavy not in modules_loaded_by("import ortpkg")


@pytest.mark.parametrize("name", sorted(set(ortpkg.__all__) - {"__version__"}))
def test_every_public_name_exists(name: str) -> None:
    assert getattr(ortpkg, name) is not None
    assert name in dir(ortpkg)


def test_opening_and_selecting_loads_neither_numpy_nor_onnx() -> None:
    loaded = modules_loaded_by(f"import ortpkg; ortpkg.ModelPackage({str(DIGITS)!r}).select()")
    assert "ortpkg.selection.selector" in loaded
    assert not {"numpy", "onnx", "jsonschema", "typer", "rich"} & loaded


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'ortpkg' has no attribute 'Nothing'"):
        _ = ortpkg.Nothing
