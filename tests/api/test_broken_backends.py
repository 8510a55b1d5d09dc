"""Backends that crash, hang, exit or raise when loaded: every command reports them and goes on."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("warm_processes")

_ROOT = Path(__file__).resolve().parents[2]
_DIGITS = _ROOT / "sample_packages" / "digits.ortpackage"
_LIBRARIES = {"openvino": "OpenVINOExecutionProvider", "onnxruntime": "onnxruntime"}
_FAILURES = {
    "import ctypes; ctypes.string_at(0)": "it was ended by SIGSEGV",
    "import os; os.abort()": "it was ended by SIGABRT",
    "import time; time.sleep(600)": "no answer within 50 ms",
    "import os; os._exit(0)": "it ended with status 0 without a result",
    "raise OSError('libdriver.so: version too old')": (
        "it raised 'OSError: libdriver.so: version too old'"
    ),
}

Run = Callable[..., Any]


@pytest.fixture
def broken(tmp_path: Path, answers: Path) -> Run:
    """The fixture ``broken(module, code, words)``: a command's JSON where ``module`` runs ``code``.

    In a process whose module runs the code when it is loaded.

    What the other libraries of this machine answer is known to it.
    """
    shutil.copytree(answers, tmp_path / "cache")

    def run(module: str, code: str, *words: object) -> tuple[int, Any]:
        information = tmp_path / f"{module}-99.0.dist-info"
        if not information.exists():
            (tmp_path / module).mkdir()
            (tmp_path / module / "__init__.py").write_text(f"{code}\n", encoding="utf-8")
            information.mkdir()
            (information / "METADATA").write_text(
                f"Metadata-Version: 2.1\nName: {module}\nVersion: 99.0\n"
            )
        environment = {
            **os.environ,
            "PYTHONPATH": str(tmp_path),
            "ORTPKG_CACHE_DIR": str(tmp_path / "cache"),
            "ORTPKG_PROBE_TIMEOUT": "0.05" if "sleep" in code else "300",
        }
        done = subprocess.run(
            [sys.executable, "-m", "ortpkg", *map(str, words), "--json"],
            capture_output=True,
            text=True,
            check=False,
            cwd=_ROOT,
            env=environment,
        )
        return done.returncode, json.loads(done.stdout)

    return run


@pytest.mark.skipif(sys.platform == "win32", reason="names POSIX signals")
@pytest.mark.parametrize("module", _LIBRARIES)
@pytest.mark.parametrize(("code", "reason"), _FAILURES.items())
def test_a_backend_that_does_harm_is_left_out_with_the_reason(
    broken: Run, module: str, code: str, reason: str
) -> None:
    code_of_exit, listed = broken(module, code, "devices")

    (note,) = [note for note in listed["notes"] if f"behind {_LIBRARIES[module]} failed" in note]
    assert code_of_exit == 0
    assert note.startswith(f"the library behind {_LIBRARIES[module]} failed: {reason}")
    assert module not in {each["backend"] for each in listed["ep_devices"]}
    assert "embedded" in {each["backend"] for each in listed["ep_devices"]}


def test_selection_goes_on_and_doctor_says_what_is_broken(broken: Run) -> None:
    code = "raise OSError('libdriver.so: version too old')"

    selected = broken("openvino", code, "select", _DIGITS)
    examined = broken("openvino", code, "doctor")

    assert selected[0] == 0
    assert any(
        "libdriver.so: version too old" in warning
        for warning in selected[1]["selections"][0]["warnings"]
    )
    assert examined[0] == 1
    assert "failed-backend" in {each["check"] for each in examined[1]["complaints"]}


def test_a_hang_is_waited_for_once_and_the_next_process_says_when_it_was(broken: Run) -> None:
    code = "import time; time.sleep(600)"
    broken("openvino", code, "devices")

    notes = broken("openvino", code, "devices")[1]["notes"]

    assert [note for note in notes if "ago; set ORTPKG_PROBE_AGAIN=1 to ask it again" in note]
