"""The temporary folder of a compile that was killed goes with the next compile.

That of one at work stays.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ortpkg.authoring.compile_folder import PREFIX, compile_folder
from tests.ep_context.at_work import AtWork
from tests.ep_context.compiling import compiled


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def _left(temporary: Path) -> list[Path]:
    return sorted(temporary.glob(f"{PREFIX}*"))


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_what_a_killed_compile_left_goes_with_the_next(
    package: Path, machine: Path, temporary: Path, tmp_path: Path
) -> None:
    del machine
    words = [
        "compile",
        str(package),
        "--ep",
        "FakeExecutionProvider",
        "--provider-option",
        "fault=hang",
    ]
    pipe = AtWork(tmp_path / "compiling")
    command = subprocess.Popen(
        [sys.executable, "-m", "ortpkg", *words],
        env={**os.environ, "FAKE_MARK": str(pipe.path)},
        stderr=subprocess.PIPE,
        text=True,
    )
    pipe.begins(command)
    (at_work,) = _left(temporary)
    with compile_folder() as own:
        assert _left(temporary) == sorted([at_work, own])
    command.send_signal(signal.SIGKILL)
    command.communicate()
    assert _left(temporary) == [at_work]
    assert compiled(package) == ["model/plain-llvm"]
    assert _left(temporary) == []


def test_a_folder_without_a_lock_goes_when_it_is_old_and_never_what_is_no_folder(
    temporary: Path,
) -> None:
    old, young, link = (temporary / f"{PREFIX}{name}" for name in ("old", "young", "link"))
    for folder in (old, young):
        (folder / "0").mkdir(parents=True)
    os.utime(old, (0, 0))
    (temporary / "elsewhere").mkdir()
    if os.name == "posix":
        link.symlink_to(temporary / "elsewhere", target_is_directory=True)
    with compile_folder() as own:
        assert {*_left(temporary)} == {young, own, *([link] if os.name == "posix" else [])}
    assert (temporary / "elsewhere").is_dir()
