"""Which tests ``make test-fast`` takes: those of the folders that differ from main."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "touched_tests.sh"
pytestmark = pytest.mark.skipif(
    os.name != "posix" or shutil.which("git") is None, reason="a POSIX shell and a repository"
)


def git(root: Path, *words: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *who, *words], cwd=root, check=True, capture_output=True)


def touched(root: Path) -> list[str]:
    return subprocess.run(
        ["sh", str(SCRIPT)], cwd=root, check=True, capture_output=True, text=True
    ).stdout.split()


def test_what_differs_from_main_is_tested_committed_or_not(tmp_path: Path) -> None:
    files = [
        "ortpkg/runtime/engine/plan.py",
        "ortpkg/foundations/names.py",
        "ortpkg/cli/app.py",
        "tests/test_names.py",
        "docs/guide.md",
    ]
    for name in [
        *files,
        "tests/engine/test_plan.py",
        "tests/graph/test_node.py",
        "tests/cli/test_app.py",
    ]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    git(tmp_path, "init", "--initial-branch=main")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    assert touched(tmp_path) == []

    git(tmp_path, "checkout", "-b", "mine")
    (tmp_path / "ortpkg/runtime/engine/plan.py").write_text("# changed\n")
    git(tmp_path, "commit", "-a", "-m", "second")
    (tmp_path / "ortpkg/foundations/names.py").write_text("# changed\n")
    (tmp_path / "docs/guide.md").write_text("changed")
    (tmp_path / "tests/graph/test_edge.py").write_text("")
    (tmp_path / "ortpkg/new").mkdir()
    (tmp_path / "ortpkg/new/without_tests.py").write_text("")

    assert touched(tmp_path) == ["tests/engine", "tests/graph", "tests/test_names.py"]
