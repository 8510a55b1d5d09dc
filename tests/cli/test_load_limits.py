"""Commands that load models, which may be a stranger's, end at limits of time and memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import DIGITS, RunCommand

pytestmark = pytest.mark.usefixtures("warm_processes")

MODEL = next(DIGITS.glob("models/classifier/cpu-fp32/*.onnx"))


@pytest.mark.parametrize(
    "words",
    [
        ["plan", DIGITS],
        ["validate", DIGITS],
        ["inspect", MODEL],
        ["diff", MODEL, MODEL],
        ["compile", DIGITS, "--ep", "llvm"],
    ],
    ids=lambda words: words[0],
)
def test_what_takes_too_long_is_an_error_that_names_the_limit(words: list[str | Path]) -> None:
    words = [sys.executable, "-m", "ortpkg", *map(str, words), "--timeout", "1us", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=50)
    error = json.loads(done.stdout)["error"]
    assert (done.returncode, error["type"]) == (5, "LimitExceededError")
    assert "passed its time limit of " in error["message"]


@pytest.mark.parametrize("command", ["plan", "validate", "inspect", "migrate-check"])
def test_wide_limits_change_nothing(ortpkg: RunCommand, command: str) -> None:
    limited = ortpkg(command, DIGITS, "--timeout", "10min", "--memory-limit", "8GiB")
    assert limited == ortpkg(command, DIGITS)


@pytest.mark.parametrize(
    ("limits", "busy", "told"),
    [
        ("0.1, None", "time.sleep(60)", "error: it passed its time limit of 0.1 s"),
        (
            "60, 1000",
            "kept = b'x' * (1 << 29); time.sleep(60)",
            "error: it passed its memory limit",
        ),
    ],
)
def test_code_that_asks_for_no_limit_is_ended_with_the_process(
    limits: str, busy: str, told: str
) -> None:
    program = f"""
import time
from ortpkg.cli.load_limits import LoadLimits, end_at_limits
from ortpkg.cli.rendering import Output
with end_at_limits(LoadLimits({limits}), Output()):
    {busy}
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=50
    )
    assert (done.returncode, done.stderr.startswith(told)) == (5, True), done.stderr
