"""Programs as people write them for onnxruntime print the same with ortpkg in its place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))


def printed(program: Path, module: str, folder: Path) -> str:
    folder.mkdir()
    command = [sys.executable, str(program), module]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.interop
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_a_program_prints_the_same_with_both_modules(program: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", minversion="1.31")
    theirs = printed(program, "onnxruntime", tmp_path / "theirs")
    assert printed(program, "ortpkg", tmp_path / "ours") == theirs
    assert theirs.count("\n") > 8
