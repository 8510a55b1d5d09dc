"""onnxruntime says nothing of its own accord, and goes on doing what a program asked of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("onnxruntime")


def said(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {key: value for key, value in os.environ.items() if key != "ORT_DISABLE_TELEMETRY"}
    return subprocess.run(
        [sys.executable, *words],
        env=variables | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.skipif(os.name != "posix", reason="a home directory that nobody can write")
@pytest.mark.parametrize("isolate", [[], ["--isolate"]])
def test_a_home_that_cannot_be_written_is_no_news_of_onnxruntimes(
    isolate: list[str], few_digits: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    words = ["-m", "ortpkg", "run", str(few_digits), "--backend", "onnxruntime", *isolate]
    done = said(*words, HOME=str(tmp_path / "file/home"), ORTPKG_CACHE_DIR=str(tmp_path / "cache"))
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stderr
    assert "onnxruntime:Default" not in done.stderr


def test_the_environment_is_as_it_was_and_telemetry_that_is_asked_for_stays_asked_for() -> None:
    program = """
import os
from ortpkg.runtime.providers.quiet_onnxruntime import load_onnxruntime
load_onnxruntime()
print(os.environ.get("ORT_DISABLE_TELEMETRY"))
"""
    assert said("-c", program).stdout == "None\n"
    assert said("-c", program, ORT_DISABLE_TELEMETRY="0").stdout == "0\n"


def test_a_logger_that_the_program_has_set_is_left_alone() -> None:
    program = """
import onnxruntime
onnxruntime.set_default_logger_severity = lambda severity: print("changed")
from ortpkg.runtime.providers.quiet_onnxruntime import load_onnxruntime
load_onnxruntime()
"""
    assert said("-c", program).stdout == ""
