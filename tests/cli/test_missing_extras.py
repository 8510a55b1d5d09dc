"""A library of an extra that is not installed: one sentence and one exit code, in every command."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from PIL import Image

from ortpkg.foundations.errors import ExitCode, MissingExtraError
from ortpkg.foundations.errors.extras import LIBRARIES
from tests.cli.conftest import DIGITS

ROOT = Path(__file__).resolve().parents[2]
MODEL = DIGITS / "models" / "classifier" / "cpu-fp32" / "model.onnx"
_SENTENCE = re.compile(
    r"^error: .+ needs (?P<library>\S+), which is not installed: pip install (?P<pip>.+), or install"
    r" ortpkg with its extra (?P<extra>[a-z]+)(; .+)?$"
)
#: Loaded by every process of ours, children too: modules that cannot be found.
_HIDING = """
import os, sys
from importlib.machinery import PathFinder
class Hiding:
    find_distributions = PathFinder.find_distributions
    invalidate_caches = PathFinder.invalidate_caches
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] == os.environ["HIDDEN_MODULE"]:
            return None
        return PathFinder.find_spec(name, path, target)
sys.meta_path[:] = [Hiding if finder is PathFinder else finder for finder in sys.meta_path]
"""
#: Library → command lines that need it.
_LINES = {
    "pillow": [
        f"run {DIGITS} -i image=a.png",
        f"batch {DIGITS} --input a.png -o out --in-process --errors failed.jsonl",
        "batch pictures.onnx --input x.npy -o out --in-process --format images",
        "run decoder.onnx -i x=bytes.npy",
    ],
    "pyarrow": [
        f"batch {DIGITS} --input a.png -o out --in-process --format parquet",
        f"batch {DIGITS} --input rows.parquet -o out --in-process",
    ],
    "Ray": [f"batch {DIGITS} --input a.png -o out"],
    **{
        library: [f"serve {DIGITS} --port 0"]
        for library, entry in LIBRARIES.items()
        if entry.extra == "serve"
    },
    "obstore": ["inspect s3://bucket/x.ortpkg"],
    "huggingface_hub": ["inspect hf://owner/name/x.ortpkg"],
    "cryptography": [
        f"sign {DIGITS} --key key.pem",
        "sign --new-key new.pem",
        f"verify {DIGITS} --signature --key key.pem",
    ],
    "llvmlite": [f"compile-models {MODEL} --ep llvm -o new --dry-run"],
    "OpenVINO": [
        f"run {DIGITS} --ep openvino",
        f"select {DIGITS} --backend openvino",
        f"bench {MODEL} --backend openvino",
        f"compile {DIGITS} --ep openvino --dry-run",
    ],
    "onnxruntime": [f"run {DIGITS} --backend onnxruntime", f"select {MODEL} --backend onnxruntime"],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(tmp_path / "a.png")
    (tmp_path / "rows.parquet").write_bytes(b"PAR1")
    np.save(tmp_path / "x.npy", np.zeros((1, 4, 4), np.float32))
    np.save(tmp_path / "bytes.npy", np.fromfile(tmp_path / "a.png", np.uint8))
    for name, text in {
        "pictures": "(float[n, 4, 4] x) => (float[n, 4, 4] y) { y = Relu(x) }",
        "decoder": "(uint8[n] x) => (uint8[h, w, c] y) { y = ImageDecoder(x) }",
    }.items():
        header = '<ir_version: 9, opset_import: ["" : 20]> g '
        onnx.save(onnx.parser.parse_model(header + text), tmp_path / f"{name}.onnx")
    (tmp_path / "hiding").mkdir()
    (tmp_path / "hiding" / "sitecustomize.py").write_text(_HIDING, encoding="utf-8")
    return tmp_path


def _run_without(module: str, line: str, folder: Path) -> Any:
    environment = {
        **os.environ,
        "HIDDEN_MODULE": module,
        "PYTHONPATH": os.pathsep.join([str(folder / "hiding"), str(ROOT)]),
        **{f"ORTPKG_{kind}": str(folder / kind.lower()) for kind in ("CACHE_DIR", "STORE")},
    }
    return subprocess.run(
        [sys.executable, "-m", "ortpkg", *line.split()],
        env=environment, cwd=folder, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("library", "line"),
    [
        pytest.param(library, line, id=f"{library}: {line.replace(str(DIGITS), 'digits')}")
        for library, lines in _LINES.items()
        for line in lines
    ],
)
def test_the_sentence_and_the_exit_code_are_the_same(library: str, line: str, folder: Path) -> None:
    done = _run_without(LIBRARIES[library].module, line, folder)
    sentence = _SENTENCE.match(done.stderr.splitlines()[-1])
    assert sentence is not None, done.stderr
    assert sentence["library"] == library
    assert sentence["pip"] == LIBRARIES[library].requirement
    assert sentence["extra"] == LIBRARIES[library].extra
    assert (done.returncode, done.stdout) == (ExitCode.USAGE, "")


def test_every_library_that_is_missed_is_tried() -> None:
    assert _LINES.keys() == LIBRARIES.keys()


def test_the_extras_bring_what_the_sentence_promises() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    for library in LIBRARIES.values():
        name = library.requirement.strip("'")
        assert any(
            re.match(rf"{re.escape(name)}\b|{re.escape(name)}>", r) for r in extras[library.extra]
        )


def test_a_library_that_is_damaged_says_how() -> None:
    error = MissingExtraError("serving", "starlette", ModuleNotFoundError("no anyio", name="anyio"))
    assert "serving needs starlette, which cannot be loaded ('no anyio'): pip" in str(error)
    assert (error.library, error.extra) == ("starlette", "serve")


@pytest.mark.parametrize("signers", ['"anyone"'])
def test_a_policy_that_asks_for_no_signature_needs_no_extra(signers: str, folder: Path) -> None:
    (folder / "trust.toml").write_text(
        f'[[packages]]\nnames = ["*"]\nsigners = {signers}\n', encoding="utf-8"
    )
    line = f"verify {DIGITS} --trust-policy trust.toml"
    done = _run_without("cryptography", line, folder)
    assert done.returncode == ExitCode.DONE, done.stderr
