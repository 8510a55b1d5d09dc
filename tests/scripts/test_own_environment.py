"""Checks and tests run in an environment of their own, once with and once without settings."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/own_environment.sh"
#: What machines set; each has hidden or made a fault in some project.
SETTINGS = (
    "PYTHONUNBUFFERED",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONPATH",
    "PYTEST_ADDOPTS",
    "PIP_CERT",
    "SSL_CERT_FILE",
    "ORTPKG_STORE",
    "OMP_NUM_THREADS",
    "CI",
    "COLUMNS",
)
pytestmark = pytest.mark.skipif(os.name != "posix", reason="a POSIX shell")


def names_within(environment: dict[str, str], *words: str) -> dict[str, str]:
    """Return the variables that a command sees which the script runs in ``environment``."""
    done = subprocess.run(
        ["sh", str(SCRIPT), *words, "env", "-0"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(line.split("=", 1) for line in done.stdout.split("\0") if line)


def test_no_setting_of_the_machine_comes_through() -> None:
    settings = dict.fromkeys(SETTINGS, "1")
    assert names_within({**settings, "PATH": os.environ["PATH"], "LANG": "de_AT"}) == {
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
    }


def test_places_ways_and_what_right_results_need_come_through_as_they_are() -> None:
    values = {
        "PATH": os.environ["PATH"],
        "HOME": "/a home/$(of) 'ours'",
        "TMPDIR": "",
        "https_proxy": 'http://user:"pass`word`@proxy',
        "OPENBLAS_CORETYPE": "Haswell",
    }
    assert names_within(values) == {**values, "LANG": "C.UTF-8"}


def test_words_before_the_command_set_variables_and_its_exit_code_comes_back() -> None:
    assert names_within({"PATH": os.environ["PATH"]}, "CI=true")["CI"] == "true"
    done = subprocess.run(["sh", str(SCRIPT), "sh", "-c", "exit 3"], check=False)
    assert done.returncode == 3


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_make_test_runs_every_check_in_it_and_tests_with_settings_too() -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
    done = subprocess.run(
        # the environment for development is as it is: nothing is installed
        [
            "make",
            "--dry-run",
            "--old-file=.venv/.installed-dev",
            "lint",
            "types",
            "layers",
            "tests",
        ],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line for line in done.stdout.splitlines() if "/bin/" in line and "pip" not in line]
    assert len(lines) >= 6
    assert all(line.startswith("sh scripts/own_environment.sh ") for line in lines)
    plain, with_settings = (line for line in lines if "pytest" in line)
    assert "PYTHONUNBUFFERED" not in plain
    assert "PYTHONUNBUFFERED=1" in with_settings
    assert all((ROOT / word).exists() for word in with_settings.split() if word[:6] == "tests/")
