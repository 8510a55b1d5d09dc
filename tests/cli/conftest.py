"""A command line that runs in this process, and small models to use it on."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from ortpkg.api.verify import record_digests
from ortpkg.cli.app import main
from tests.done import Done as Done
from tests.npz import arrays_in

DIGITS = Path(__file__).resolve().parents[2] / "sample_packages" / "digits.ortpackage"
#: Some of its samples, more than are shown, and one that every variant gets wrong.
FEW_SAMPLES = (*range(12), 208)


RunCommand = Callable[..., Done]


@pytest.fixture(scope="session")
def few_digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The digits package with a few of its 360 samples, for tests that are not about their number.

    To run all of them takes longer than everything else that a command does with the package.
    """
    package = Path(shutil.copytree(DIGITS, tmp_path_factory.mktemp("few") / DIGITS.name))
    for path in (package / "samples").glob("*.npz"):
        few = {name: array[list(FEW_SAMPLES)] for name, array in arrays_in(path).items()}
        np.savez_compressed(path, **few)
    record_digests(package)
    return package


@pytest.fixture
def ortpkg(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> RunCommand:
    """Runs ``ortpkg WORD...`` and returns its exit code and what it printed."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*words: object) -> Done:
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit_:
            main([str(word) for word in words])
        captured = capsys.readouterr()
        code = exit_.value.code
        return Done(code=int(code or 0), out=captured.out, err=captured.err)

    return run


def save_scale(path: Path, *, factor: float = 2.0, input_type: str = "float[N, 3]") -> Path:
    """Makes a small ONNX file: ``y = x * factor`` over float[N, 3]."""
    text = f"""
        <ir_version: 8, opset_import: ["" : 17]>
        scale ({input_type} x) => (float[N, 3] y) <float factor = {{{factor}}}> {{ y = Mul(x, factor) }}
    """
    onnx.save(onnx.parser.parse_model(text), path)
    return path


@pytest.fixture
def model(tmp_path: Path) -> Callable[..., Path]:
    """:func:`save_scale` into the test's own folder."""

    def make(name: str = "double.onnx", **words: Any) -> Path:
        return save_scale(tmp_path / name, **words)

    return make
