"""Foreign code in a child process: whatever it does, the parent gets a value with a reason."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ortpkg.foundations.isolation.child import ChildOutcome, ChildResult, call_in_child

_FOREIGN = """
import ctypes, os, subprocess, sys, time

def add(a, b):
    print("native noise on stdout")
    os.write(1, b"more noise")
    return {"sum": a + b}

def fail():
    raise ValueError("no such driver\\x1b[2J")

def crash():
    ctypes.string_at(0)

def abort():
    os.write(2, b"driver: assertion failed\\n")
    os.abort()

def exit_quietly():
    os._exit(0)

def exit_loudly():
    sys.exit(3)

def hang(pid_file, apart=False):
    child = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=apart
    )
    with open(pid_file, "w") as file:
        file.write(str(child.pid))
    time.sleep(600)

def flood():
    return "x" * (5 << 20)

def chatter():
    for _ in range(1000):
        os.write(2, b"y" * 1000)
    return "done"

def import_trap():
    import trap
"""


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "foreign.py").write_text(textwrap.dedent(_FOREIGN), encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def run(function: str, *, timeout_s: float = 60.0, **arguments: Any) -> ChildResult:
        return call_in_child(f"foreign:{function}", arguments, timeout_s=timeout_s)

    return run


def test_a_result_comes_back_clean_of_what_the_library_prints(call: Any) -> None:
    assert call("add", a=1, b=2) == ChildResult(outcome=ChildOutcome.DONE, value={"sum": 3})


def test_an_exception_is_a_value_with_its_text_escaped(call: Any) -> None:
    result = call("fail")

    assert result.outcome is ChildOutcome.RAISED
    assert result.reason == r"it raised 'ValueError: no such driver\x1b[2J'"


@pytest.mark.skipif(os.name != "posix", reason="names POSIX signals")
def test_a_crash_is_a_value_that_names_the_signal(call: Any) -> None:
    result = call("crash")

    assert result.outcome is ChildOutcome.CRASHED
    assert result.reason.startswith("it was ended by SIGSEGV")


@pytest.mark.skipif(os.name != "posix", reason="names POSIX signals")
def test_an_abort_is_told_with_its_last_words(call: Any) -> None:
    assert (
        call("abort").reason
        == "it was ended by SIGABRT; its last words: 'driver: assertion failed'"
    )


def test_an_exit_without_a_result_is_told(call: Any) -> None:
    assert call("exit_quietly") == ChildResult(
        outcome=ChildOutcome.NO_RESULT, reason="it ended with status 0 without a result"
    )


def test_an_exit_with_a_status_is_told(call: Any) -> None:
    result = call("exit_loudly")

    assert (result.outcome, result.reason) == (ChildOutcome.CRASHED, "it ended with status 3")


@pytest.mark.skipif(sys.platform != "linux", reason="looks for the grandchild in /proc")
@pytest.mark.parametrize("apart", [False, True], ids=["in its session", "in one of its own"])
def test_a_hang_is_ended_with_all_that_it_started(call: Any, tmp_path: Path, apart: bool) -> None:
    pid_file = tmp_path / "pid"

    result = call("hang", timeout_s=3.0, pid_file=str(pid_file), apart=apart)

    assert (result.outcome, result.reason) == (ChildOutcome.TIMED_OUT, "no answer within 3 s")
    assert _ends(int(pid_file.read_text()))


def test_too_large_a_result_is_refused(call: Any) -> None:
    assert call("flood").outcome is ChildOutcome.TOO_MUCH_OUTPUT


def test_much_noise_on_stderr_blocks_nothing(call: Any) -> None:
    assert call("chatter").value == "done"


def test_the_child_takes_no_module_from_the_current_directory(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "trap.py").write_text("", encoding="utf-8")
    monkeypatch.chdir(tmp_path / "elsewhere")

    assert (
        call("import_trap").reason == """it raised "ModuleNotFoundError: No module named 'trap'\""""
    )


def test_a_module_that_does_not_exist_is_a_value(call: Any) -> None:
    assert "ModuleNotFoundError" in call_in_child("no_such_module:f", {}, timeout_s=60).reason


def test_an_interpreter_that_does_not_exist_is_a_value(
    call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORTPKG_PYTHON", "/nowhere/python")

    result = call("add", a=1, b=2)

    assert result.outcome is ChildOutcome.NOT_STARTED
    assert (
        result.reason
        == "the interpreter cannot be started: ORTPKG_PYTHON is '/nowhere/python': No such file or"
        " directory"
    )


def test_another_interpreter_can_be_named(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORTPKG_PYTHON", sys.executable)
    monkeypatch.setattr(sys, "executable", "/nowhere/frozen-application")

    assert call("add", a=1, b=2).value == {"sum": 3}


def _ends(pid: int, *, within_s: float = 60.0) -> bool:
    """Whether a killed process that is nobody's child here ends, at the system's leisure."""
    deadline = time.monotonic() + within_s
    while _is_running(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _is_running(pid: int) -> bool:
    found = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return found.stdout.strip() not in {"", "Z"} and not found.stdout.startswith("Z")


@pytest.mark.skipif(sys.platform == "win32", reason="ends parents by a signal")
def test_a_child_does_not_outlive_a_parent_that_was_killed(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    (tmp_path / "hanging.py").write_text(
        "import os, time\nfrom pathlib import Path\n"
        f"def hang():\n    Path({str(mark)!r}).write_text(str(os.getpid()))\n    time.sleep(600)\n"
    )
    text = (
        "from ortpkg.foundations.isolation.child import call_in_child; call_in_child('hanging:hang', {},"
        " timeout_s=600)"
    )
    path = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2])])
    parent = subprocess.Popen([sys.executable, "-c", text], env={**os.environ, "PYTHONPATH": path})
    try:
        _wait_until(lambda: mark.exists() and mark.read_text() != "")
    finally:
        parent.kill()
        parent.wait()

    assert _ends(int(mark.read_text()))


def _wait_until(is_so: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
