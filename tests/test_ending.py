"""Runs of tests that hang where pytest-timeout does not reach end all the same, and fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[1]
#: Long enough for two workers to start on a busy machine, and shorter than what hangs below.
_LONGEST_S = 100
_HEAD = """
import ctypes, threading, time
import pytest

def hold_the_lock():
    "Waits for ever in C, whatever signal comes."
    lock, mutex = ctypes.PyDLL(None).pthread_mutex_lock, ctypes.create_string_buffer(64)
    lock(mutex)
    lock(mutex)

def test_before(): pass
"""
HANGS = {
    "a call of C in a test": """
def test_hangs(): hold_the_lock()
""",
    "a call of C in a set-up": """
@pytest.fixture
def held(): hold_the_lock()

def test_hangs(held): pass
""",
    "the teardown of a test that failed": """
@pytest.fixture
def held():
    yield
    time.sleep(1000)

def test_hangs(held): assert False
""",
    "the teardown of a test that had too long": """
@pytest.fixture
def held():
    yield
    threading.Event().wait(1000)

def test_hangs(held): time.sleep(1000)
""",
    "a module that is loaded": "time.sleep(1000)",
    "the teardown of what tests share, after the first failure": """
@pytest.fixture(scope="session")
def held():
    yield
    hold_the_lock()

def test_fails(held): assert False
""",
}
STRAY_THREAD = """
def test_starts(): threading.Thread(target=time.sleep, args=(1000,)).start()
"""
TWO_HANGS = """
@pytest.fixture
def held():
    yield
    time.sleep(1000)

def test_of_c(): hold_the_lock()

def test_of_a_teardown(held): assert False
"""
ALONE, BY_WORKERS = ("-p", "no:xdist"), ("-n", "2")


def run_tests(folder: Path, text: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run tests of a text in a process of their own, with limits of two seconds each.

    TimeoutExpired where that process, or a worker of it, does not end.
    """
    (folder / "conftest.py").write_text('pytest_plugins = ("tests.ending",)\n')
    (folder / "pytest.ini").write_text("[pytest]\ntimeout = 2\nending_margin = 2\n")
    (folder / "test_it.py").write_text(_HEAD + text)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=_LONGEST_S,
    )


@pytest.mark.parametrize("hang", HANGS)
def test_what_hangs_is_ended_and_told(tmp_path: Path, hang: str) -> None:
    done = run_tests(tmp_path, HANGS[hang] + "\ndef test_after(): pass\n", "-x", *ALONE)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Timeout (0:00:0" in done.stderr
    assert "test_it.py" in done.stderr


def test_a_thread_that_nobody_stops_is_ended_and_told(tmp_path: Path) -> None:
    done = run_tests(tmp_path, STRAY_THREAD, *ALONE)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    assert "Timeout (0:00:02)!" in done.stderr
    assert "_shutdown" in done.stderr


def test_a_worker_that_is_ended_is_a_failed_test(tmp_path: Path) -> None:
    done = run_tests(tmp_path, TWO_HANGS, "-o", "ending_margin=8", *BY_WORKERS)
    assert done.returncode == 1, done.stdout + done.stderr
    for name in ("test_of_c", "test_of_a_teardown"):
        assert f"crashed while running 'test_it.py::{name}'" in done.stdout


def test_a_worker_that_is_slow_to_end_costs_no_report(tmp_path: Path) -> None:
    """The one that starts workers waits for them before it writes its report."""
    slow = """
import os
if "PYTEST_XDIST_WORKER" in os.environ:
    threading._register_atexit(time.sleep, 6)  # before the clock that bounds the end of Python

def test_fails(): assert False
"""
    done = run_tests(tmp_path, slow, *BY_WORKERS)
    assert "FAILED test_it.py::test_fails" in done.stdout, done.stdout + done.stderr
    assert "1 failed, 1 passed" in done.stdout


def test_no_worker_stays_behind_for_a_thread_that_nobody_stops(tmp_path: Path) -> None:
    """A worker has less time than xdist takes to kill it."""
    done = run_tests(tmp_path, STRAY_THREAD, *BY_WORKERS)
    assert ".. " in done.stdout, done.stdout + done.stderr  # both tests have passed
    assert "in _shutdown" in done.stderr  # where a worker waits for such a thread


def test_limits_of_marks_hold(tmp_path: Path) -> None:
    slow = "@pytest.mark.timeout(60)\ndef test_slow(): time.sleep(5)"
    done = run_tests(tmp_path, slow, *ALONE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Timeout (" not in done.stderr


def test_without_limits_nothing_is_ended(tmp_path: Path) -> None:
    done = run_tests(tmp_path, "def test_slow(): time.sleep(5)", "--timeout", "0", *ALONE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
