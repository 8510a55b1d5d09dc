"""A copy of a process that has loaded everything is a process like one that was started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.warm.popen import WarmPopen

pytestmark = [
    pytest.mark.usefixtures("warm_processes"),
    pytest.mark.skipif(sys.platform != "linux", reason="nothing is copied elsewhere"),
]
_ROOT = Path(__file__).resolve().parents[2]
#: What it is, and that nothing was loaded for it.
_TOLD = (
    "print(os.getpid(), os.getppid(), os.getsid(0) == os.getpid(), os.getcwd(),"
    " os.environ.get('A'), 'onnx' in loaded)"
)


def _done(text: str, **options: Any) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", f"import os, sys\nloaded = set(sys.modules)\n{text}"]
    done: subprocess.CompletedProcess[str] = subprocess.run(
        words, capture_output=True, text=True, check=False, **options
    )
    return done


@pytest.mark.parametrize("is_session", [False, True])
def test_it_is_a_child_with_the_folder_environment_and_session_that_were_asked_for(
    tmp_path: Path, is_session: bool
) -> None:
    done = _done(_TOLD, cwd=tmp_path, env={"A": "1"}, start_new_session=is_session)
    assert done.stdout.split()[1:] == [
        str(os.getpid()),
        str(is_session),
        str(tmp_path),
        "1",
        "True",
    ]


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("sys.exit(7)", 7, ""),
        ("sys.exit('in words')", 1, "in words\n"),
        ("raise ValueError('no')", 1, "ValueError: no"),
        ("raise KeyboardInterrupt", -signal.SIGINT, "KeyboardInterrupt"),
        ("os.abort()", -signal.SIGABRT, ""),
        ("import atexit; atexit.register(print, 'last')", 0, ""),
    ],
)
def test_it_ends_as_an_interpreter_ends(text: str, code: int, said: str) -> None:
    done = _done(text)
    assert (done.returncode, said in done.stderr) == (code, True)
    assert done.stdout == ("last\n" if "last" in text else "")


def test_what_it_starts_is_copied_too_and_is_its_child() -> None:
    inner = [sys.executable, "-c", f"import os, sys\nloaded = set(sys.modules)\n{_TOLD}"]
    done = _done(f"import subprocess\nprint(os.getpid(), flush=True)\nsubprocess.run({inner!r})")
    outer, told = done.stdout.splitlines()
    assert (told.split()[1], told.split()[-1]) == (outer, "True")


def test_it_loads_what_stands_first_on_the_path_it_is_given(tmp_path: Path) -> None:
    (tmp_path / "onnxruntime.py").write_text("print('another one')")
    done = _done("import onnxruntime", env={"PYTHONPATH": str(tmp_path)})
    assert done.stdout == "another one\n"


def test_a_module_of_the_tests_is_the_program_and_has_the_words_behind_it() -> None:
    words = [sys.executable, "-m", "tests.warm.told", "1", "two"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=_ROOT)
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout == "__main__ ['1', 'two'] True\n"


def test_other_programs_are_started_as_ever() -> None:
    assert isinstance(subprocess.Popen(["true"]), WarmPopen)
    assert subprocess.run(["sh", "-c", "exit 3"], check=False).returncode == 3
    words = [sys.executable, "-I", "-c", "import sys; print('numpy' in sys.modules)"]
    started = subprocess.run(words, capture_output=True, check=True)
    assert started.stdout == b"False\n"
