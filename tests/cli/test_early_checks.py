"""What options name is looked up before libraries, models and workers are loaded."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import DIGITS, RunCommand

MODEL = DIGITS / "models" / "classifier" / "cpu-fp32" / "model.onnx"
_RUN = """
import sys
from ortpkg.cli.app import run
code = run(sys.argv[1:])
print(code, sorted({"onnx", "onnxruntime", "openvino", "ray", "llvmlite"} & set(sys.modules)))
"""


@pytest.mark.parametrize(
    "words",
    [
        ["create", "no/x.ortpackage", "--cpu", MODEL],
        ["init", "no/x.ortpackage"],
        ["pack", DIGITS, "-o", "no/x.ortpkg"],
        ["pack", DIGITS, "-o", "no/x.ortpkg", "--overwrite"],
        ["unpack", "digits.ortpkg", "-o", "no/x"],
        ["pull", "oci-layout:layout:1", "-o", "no/x"],
        ["slim", DIGITS, "--variant", "cpu-fp32", "-o", "no/x"],
        ["convert", DIGITS, "--to", "component", "-o", "no/x"],
        ["merge", DIGITS, DIGITS, "-o", "no/x"],
        ["run", DIGITS, "-o", "no/x.npz"],
        ["report", DIGITS, "-o", "no/x.html"],
        ["devices", "--export", "no/x.json"],
    ],
    ids=lambda words: words[0],
)
def test_a_folder_that_is_missing_is_one_sentence_and_one_code(
    words: list[str | Path], ortpkg: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits.ortpkg").write_bytes(b"")
    done = ortpkg(*words)
    said = " ".join(done.err.split())
    assert done.code == 2, said
    assert re.search(r"'\S*no/x\S*': there is no directory '\S*no'$", said), said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", DIGITS, "-i", "none.npy"], "cannot read 'none.npy': No such file"),
        (["run", DIGITS, "-i", "image=none.npy"], "cannot read 'none.npy': No such file"),
        (["run", DIGITS, "-o", "no/x.npz"], "there is no directory 'no'"),
        (["bench", DIGITS, "--svg", "no/x.svg"], "there is no directory 'no'"),
        (["plan", MODEL, "--svg", "no/x.svg"], "there is no directory 'no'"),
        (["plan", MODEL, "--ep", "opnvino"], "there is no execution provider 'opnvino'"),
        (["report", DIGITS, "-o", "no/x.html"], "there is no directory 'no'"),
        (["report", DIGITS, "--profile", "none.json"], "there is no machine profile"),
        (["report", DIGITS, "--ep", "opnvino"], "there is no execution provider 'opnvino'"),
        (["compile", DIGITS, "--ep", "opnvino"], "there is no execution provider 'opnvino'"),
        (
            ["compile-models", MODEL, "-o", "new", "--ep", "opnvino"],
            "there is no execution provider 'opnvino'",
        ),
        (
            ["batch", DIGITS, "-i", "x.csv", "-o", "out", "--ep", "opnvino"],
            "there is no execution provider 'opnvino'",
        ),
        (["devices", "--export", "no/x.json"], "there is no directory 'no'"),
    ],
    ids=lambda value: (
        " ".join(str(word) for word in value if word not in {DIGITS, MODEL})
        if isinstance(value, list)
        else ""
    ),
)
def test_mistakes_are_said_before_anything_is_loaded(
    words: list[str | Path], said: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _RUN, *map(str, words)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert said in done.stderr.replace("\n", " ")
    loaded = ["onnx"] if words[0] == "batch" else []  # batch needs it for its own options
    assert done.stdout == f"2 {loaded}\n"
