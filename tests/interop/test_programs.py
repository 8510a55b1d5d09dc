"""Programs as people write them for onnxruntime print the same with ortpkg in its place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))


def started(program: Path, module: str, folder: Path) -> subprocess.Popen[str]:
    folder.mkdir()
    command = [sys.executable, str(program), module]
    return subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def printed(process: subprocess.Popen[str]) -> str:
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return output


@pytest.mark.interop
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_a_program_prints_the_same_with_both_modules(program: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", minversion="1.31")
    with (
        started(program, "onnxruntime", tmp_path / "theirs") as one,
        started(program, "ortpkg", tmp_path / "ours") as two,
    ):
        theirs, ours = printed(one), printed(two)
    assert ours == theirs
    assert theirs.count("\n") > 8
