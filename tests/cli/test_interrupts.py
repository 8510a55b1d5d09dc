"""Ctrl-C: at any moment one word, exit code 130, and nothing half-done."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.cli.conftest import DIGITS

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")


@pytest.fixture(autouse=True)
def interrupts_are_heard() -> Iterator[None]:
    """What ignores interrupts (a suite that runs as a background job) has children that do so too."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def interrupted_at(
    module: str, words: list[str], *, swallowed: bool = False
) -> subprocess.CompletedProcess[str]:
    """Runs ``ortpkg WORD...``, which gets an interrupt when it loads ``module``.

    ``swallowed``: the module makes an ImportError of the interrupt, as extension modules written in
        C++ do.
    """
    program = f"""
import os, signal, sys

class Interrupter:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            try:
                os.kill(os.getpid(), signal.SIGINT)
                for _ in range(1000):
                    pass
            except KeyboardInterrupt:
                if not {swallowed!r}:
                    raise
                raise ImportError("cannot import name 'x'") from None
        return None

sys.meta_path.insert(0, Interrupter())
sys.argv = ["ortpkg", *{words!r}]
from ortpkg.__main__ import main
main()
"""
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.parametrize("swallowed", [False, True])
@pytest.mark.parametrize(
    "module",
    ["ortpkg.cli.app", "typer", "ortpkg.cli.run", "ortpkg.runtime.session.options", "numpy"],
)
def test_an_interrupt_while_a_module_loads_is_cancelled(module: str, swallowed: bool) -> None:
    done = interrupted_at(
        module, ["run", str(DIGITS), "--backend", "embedded"], swallowed=swallowed
    )
    assert (done.returncode, done.stderr.splitlines()[-1]) == (130, "cancelled")
    assert "Traceback" not in done.stderr
    assert "bug" not in done.stderr


@pytest.mark.parametrize("function", ["create_dynamic", "exec_dynamic"])
def test_an_interrupt_while_an_extension_module_begins_waits_until_it_has(function: str) -> None:
    program = f"""
import _imp, os, signal, sys

def interrupted(*arguments, begin=_imp.{function}):
    _imp.{function} = begin
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000):
        pass
    begun = begin(*arguments)
    print("it has begun", flush=True)
    return begun

sys.argv = ["ortpkg", "run", {str(DIGITS)!r}, "--backend", "embedded"]
from ortpkg.__main__ import main
_imp.{function} = interrupted
main()
"""
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (130, "it has begun\n", "cancelled\n")


def test_an_interrupt_while_the_lock_of_a_module_ends_is_not_printed_and_forgotten() -> None:
    program = f"""
import os, signal, sys

def interrupted(frame, event, _argument):
    if event == "call" and frame.f_code.co_qualname == "_get_module_lock.<locals>.cb":
        sys.setprofile(None)
        os.kill(os.getpid(), signal.SIGINT)

sys.argv = ["ortpkg", "run", {str(DIGITS)!r}, "--backend", "embedded"]
from ortpkg.__main__ import main
from ortpkg.cli.interrupts import watch
watch()
sys.setprofile(interrupted)
main()
"""
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "cancelled\n")


def test_an_interrupt_while_onnxruntime_loads_is_no_failure_of_it() -> None:
    done = interrupted_at(
        "onnxruntime", ["run", str(DIGITS), "--backend", "onnxruntime"], swallowed=True
    )
    assert (done.returncode, done.stderr.splitlines()[-1]) == (130, "cancelled")
    assert "error" not in done.stderr


def test_an_interrupt_comes_at_any_moment() -> None:
    """From the moment on where the program begins: before that it is Python that is interrupted."""
    words = [sys.executable, "-m", "ortpkg", "run", str(DIGITS), "--backend", "embedded"]
    codes = []
    for step in range(12):
        running = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(0.1 + 0.08 * step)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=60)
        codes.append(running.returncode)
        if (running.returncode, said) == (-signal.SIGINT, ""):
            continue  # on a busy machine it was still Python that was loading, without handlers yet
        if "Python runtime state" in said or ("Traceback" in said and "in main" not in said):
            continue  # or with them
        assert running.returncode in {0, 130}, said
        assert "Traceback" not in said
        assert said.count("cancelled\n") == (running.returncode == 130)
    assert 130 in codes


def test_a_background_job_that_ignores_interrupts_goes_on_ignoring_them() -> None:
    program = 'trap \'\' INT; exec "$0" -m ortpkg inspect "$1"'
    running = subprocess.Popen(
        ["sh", "-c", program, sys.executable, str(DIGITS)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(0.3)
    running.send_signal(signal.SIGINT)
    out, _ = running.communicate(timeout=60)
    assert running.returncode == 0
    assert "classifier" in out
