"""The environment of ``make gpu``: which wheels go into it, and how, without a network."""

from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from scripts.gpu.environment import make_environment, newest_of_each, unpack_wheel


def _wheel(folder: Path, name: str, **files: str) -> Path:
    path = folder / f"{name}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
    return path


def test_one_wheel_of_each_distribution_and_one_runtime() -> None:
    names = [
        "onnxruntime-1.30.0-cp312",
        "onnxruntime_ep_webgpu-0.4.0-py3",
        "onnxruntime_gpu-1.31.1-cp312",
        "typer-0.28.0-py3",
        "typer-0.29.2-py3",
    ]
    assert [path.name for path in newest_of_each([Path(name) for name in names])] == [
        "onnxruntime_gpu-1.31.1-cp312",
        "onnxruntime_ep_webgpu-0.4.0-py3",
        "typer-0.29.2-py3",
    ]


def test_a_wheel_is_unpacked_as_an_installer_would(tmp_path: Path) -> None:
    wheel = _wheel(
        tmp_path,
        "acme-1.0",
        **{
            "acme/__init__.py": "own = 1",
            "acme-1.0.data/purelib/acme/pure.py": "",
            "acme-1.0.data/scripts/acme": "",
            "acme-1.0.dist-info/METADATA": "",
            "../outside.py": "",
        },
    )
    unpack_wheel(wheel, tmp_path / "site")

    names = {path.relative_to(tmp_path / "site").as_posix() for path in tmp_path.rglob("site/**/*")}
    assert {"acme/__init__.py", "acme/pure.py", "acme-1.0.dist-info/METADATA"} <= names
    assert not any("scripts" in name or "outside" in name for name in names)
    assert not (tmp_path / "outside.py").exists()


@pytest.mark.parametrize("failing", ["", "pip", "venv"])
def test_wheels_go_before_what_this_python_has(
    failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wheels").mkdir()
    _wheel(
        tmp_path / "wheels",
        "packaging-99.0",
        **{
            "packaging/__init__.py": "__version__ = '99.0'",
            "packaging-99.0.dist-info/METADATA": (
                "Metadata-Version: 2.1\nName: packaging\nVersion: 99.0\n"
            ),
            "packaging-99.0.dist-info/WHEEL": (
                "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            ),
            "packaging-99.0.dist-info/RECORD": "packaging/__init__.py,,\n",
        },
    )
    own = subprocess.run

    def run(command: list[str], **keywords: Any) -> Any:
        failed = subprocess.CompletedProcess(command, 1, "", "no such option")
        return failed if failing in command else own(command, **keywords)

    monkeypatch.setattr(subprocess, "run", run)

    environment = make_environment(tmp_path / "environment", tmp_path / "wheels")

    assert environment.details.startswith(
        f"1 wheels, {'unpacked' if failing == 'pip' else 'installed'}"
    )
    code = "import packaging, numpy, ortpkg, scripts.gpu; print(packaging.__version__)"
    done = subprocess.run(
        [environment.python, "-c", code],
        env={**os.environ, "PYTHONPATH": environment.python_path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("99.0\n", "")
