"""What `make run` and `make test` do first: make a virtual environment, this one's and whole."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")


def make(checkout: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {
        key: value
        for key, value in os.environ.items()
        if key not in ("PYTHON", "MAKEFLAGS", "MAKELEVEL")
    }
    return subprocess.run(
        ["make", *arguments],
        cwd=checkout,
        env=environment | variables,
        capture_output=True,
        text=True,
        check=False,
    )


def would_make_anew(checkout: Path, **variables: str) -> bool:
    return "make_venv.sh" in make(checkout, "--dry-run", "run", **variables).stdout


def take_pip_from(environment: Path, script: Path) -> None:
    """Has a script copy pip from an environment that is there.

    To install one takes ten times as long as all else that it does, and ``make test`` has done it.
    """
    text, whole = script.read_text(encoding="utf-8"), '-m venv "$venv"'
    assert whole in text
    (pip,) = environment.glob("lib/*/site-packages/pip")
    target = f'"$venv"/lib/{pip.parents[1].name}/site-packages'
    without = f'-m venv --without-pip "$venv" && cp -R {shlex.quote(str(pip))} {target}'
    script.write_text(text.replace(whole, without), encoding="utf-8")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout under a name with a blank, whose environment is made.

    What would be installed into it is not.
    """
    checkout = tmp_path_factory.mktemp("a checkout") / "of ours"
    shutil.copytree(
        ROOT / "scripts", checkout / "scripts", ignore=shutil.ignore_patterns("__pycache__")
    )
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, checkout)
    take_pip_from(Path(sys.prefix), checkout / "scripts/make_venv.sh")
    done = make(checkout, ".venv/.made", PYTHON=sys.executable)
    assert done.returncode == 0, done.stderr
    (checkout / ".venv/.installed").touch()
    return checkout


def test_a_whole_environment_of_this_checkout_is_kept(made: Path) -> None:
    assert not would_make_anew(made)
    assert not would_make_anew(made, PYTHON=sys.executable)
    assert "pip" not in make(made, "--dry-run", "run").stdout


def test_a_copied_or_moved_checkout_gets_an_environment_of_its_own(
    made: Path, tmp_path: Path
) -> None:
    copied = tmp_path / "copied"
    shutil.copytree(made, copied, symlinks=True)
    assert would_make_anew(copied)
    assert "pip" in make(copied, "--dry-run", "run").stdout

    done = make(copied, ".venv/.made", PYTHON=sys.executable)

    assert f"making .venv anew: it was made for {made}" in done.stdout
    assert not (copied / ".venv/.installed").exists()
    assert not would_make_anew(copied)


def test_an_environment_that_is_half_made_or_lost_its_python_is_made_anew(
    made: Path, tmp_path: Path
) -> None:
    half = tmp_path / "half"
    shutil.copytree(made, half, symlinks=True, ignore=shutil.ignore_patterns(".venv"))
    assert would_make_anew(half)
    (half / ".venv/bin").mkdir(parents=True)
    (half / ".venv/bin/python").symlink_to(sys.executable)
    assert would_make_anew(half)
    (half / ".venv/bin/python").unlink()
    (half / ".venv/.made").write_text(f"{half}\n{sys.executable}\n")
    assert would_make_anew(half)


def test_a_python_that_is_named_and_cannot_be_used_is_an_error_and_no_other_is_taken(
    made: Path,
) -> None:
    for form in ({"PYTHON": "/nonexistent"}, {}):
        named = () if form else ("PYTHON=/nonexistent",)

        done = make(made, "run", *named, **form)

        assert done.returncode != 0
        assert "PYTHON=/nonexistent is no Python 3.11 or newer that can be started" in done.stderr
    assert (made / ".venv/.made").is_file()
    assert not would_make_anew(made)
