"""Runs of tests that hang where pytest-timeout does not reach end all the same, and fail."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
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
SLOW_TO_END = """
import os
if "PYTEST_XDIST_WORKER" in os.environ:
    threading._register_atexit(time.sleep, 6)  # before the clock that bounds the end of Python

def test_fails(): assert False
"""
SLOW_BY_MARK = "@pytest.mark.timeout(60)\ndef test_slow(): time.sleep(5)"
SLOW = "def test_slow(): time.sleep(5)"
ALONE, BY_WORKERS = (), ("-p", "xdist.plugin", "-n", "2")
#: Name of a run → text of its tests, and words of pytest's command line.
RUNS = {
    **{name: (f"{text}\ndef test_after(): pass\n", ("-x", *ALONE)) for name, text in HANGS.items()},
    "a stray thread": (STRAY_THREAD, ALONE),
    "a stray thread of a worker": (STRAY_THREAD, BY_WORKERS),
    "two hangs": (TWO_HANGS, ("-o", "ending_margin=8", *BY_WORKERS)),
    "a worker that is slow to end": (SLOW_TO_END, BY_WORKERS),
    "a mark with a limit": (SLOW_BY_MARK, ALONE),
    "no limits": (SLOW, ("--timeout", "0", *ALONE)),
}
Run = Callable[[str], subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Result of a run by its name; four runs at a time, since they mostly wait."""
    folder = tmp_path_factory.mktemp("ending")
    with ThreadPoolExecutor(4) as threads:
        started: dict[str, Future[subprocess.CompletedProcess[str]]] = {
            name: threads.submit(_run_tests, folder / str(number), text, *words)
            for number, (name, (text, words)) in enumerate(RUNS.items())
        }
        yield lambda name: started[name].result()


def _run_tests(folder: Path, text: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run tests of a text in a process of their own, with limits of two seconds and a margin of three.

    TimeoutExpired where that process, or a worker of it, does not end.
    """
    folder.mkdir()
    (folder / "conftest.py").write_text('pytest_plugins = ("tests.ending",)\n')
    (folder / "pytest.ini").write_text("[pytest]\ntimeout = 2\nending_margin = 3\n")
    (folder / "test_it.py").write_text(_HEAD + text)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "pytest_timeout", "--basetemp", "kept", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(_ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=_LONGEST_S,
    )


@pytest.mark.parametrize("hang", HANGS)
def test_what_hangs_is_ended_and_told(run: Run, hang: str) -> None:
    done = run(hang)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Timeout (0:00:0" in done.stderr
    assert "test_it.py" in done.stderr


def test_a_thread_that_nobody_stops_is_ended_and_told(run: Run) -> None:
    done = run("a stray thread")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    assert "Timeout (0:00:03)!" in done.stderr
    assert "_shutdown" in done.stderr


def test_a_worker_that_is_ended_is_a_failed_test(run: Run) -> None:
    done = run("two hangs")
    assert done.returncode == 1, done.stdout + done.stderr
    for name in ("test_of_c", "test_of_a_teardown"):
        assert f"crashed while running 'test_it.py::{name}'" in done.stdout


def test_a_worker_that_is_slow_to_end_costs_no_report(run: Run) -> None:
    """The process that starts workers waits for them before it writes its report."""
    done = run("a worker that is slow to end")
    assert "FAILED test_it.py::test_fails" in done.stdout, done.stdout + done.stderr
    assert "1 failed, 1 passed" in done.stdout


def test_no_worker_stays_behind_for_a_thread_that_nobody_stops(run: Run) -> None:
    """A worker has less time than xdist takes to kill it."""
    done = run("a stray thread of a worker")
    assert ".. " in done.stdout, done.stdout + done.stderr  # both tests have passed
    assert "in _shutdown" in done.stderr  # where a worker waits for such a thread


def test_limits_of_marks_hold(run: Run) -> None:
    done = run("a mark with a limit")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Timeout (" not in done.stderr


def test_without_limits_nothing_is_ended(run: Run) -> None:
    done = run("no limits")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
