"""Standard output full, closed, gone or of another encoding: commands end as documented."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import DIGITS

posix = pytest.mark.skipif(os.name != "posix", reason="a POSIX shell and its devices")

RUN = "run PKG --backend embedded"
PRINTING = ("--help", "--version", "inspect PKG", "select PKG --json", RUN, "explain")
COMMANDS = pytest.mark.parametrize("line", PRINTING)


@pytest.fixture
def words(line: str, few_digits: Path) -> list[str]:
    """The words of a command line, with a package in the place of PKG."""
    return [str(few_digits) if word == "PKG" else word for word in line.split()]


def shell(
    redirection: str, words: list[str], **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs ``ortpkg WORD...`` with its streams redirected as a shell does it."""
    command = ["sh", "-c", f'exec "$0" -m ortpkg "$@" {redirection}', sys.executable, *words]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )


@posix
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@COMMANDS
def test_a_full_disk_is_one_line_and_exit_code_2(words: list[str]) -> None:
    done = shell(">/dev/full", words)
    assert done.returncode == 2
    assert (
        done.stderr.splitlines()[-1]
        == "error: cannot write to standard output: No space left on device"
    )
    assert "Traceback" not in done.stderr


@posix
@COMMANDS
def test_a_closed_output_is_one_line_and_exit_code_2(words: list[str]) -> None:
    done = shell(">&-", words)
    assert done.returncode == 2
    assert (
        done.stderr.splitlines()[-1]
        == "error: cannot write to standard output: Bad file descriptor"
    )
    assert "Traceback" not in done.stderr


@posix
@COMMANDS
def test_a_reader_that_goes_away_is_no_error(words: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "ortpkg", *words],
            stdout=write,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    finally:
        os.close(write)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert "error" not in done.stderr
    assert "Exception" not in done.stderr


@posix
def test_a_reader_that_goes_away_in_between_has_what_it_wanted() -> None:
    words = f"{sys.executable} -m ortpkg inspect '{DIGITS}' --json"
    done = subprocess.run(
        ["sh", "-c", f"{words} | head -n 1"], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("{\n", "")


@posix
@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full"])
@pytest.mark.parametrize("line", [RUN, "select PKG"])
def test_data_does_not_need_standard_error(words: list[str], redirection: str) -> None:
    done = shell(redirection, words)
    assert done.returncode == 0
    assert "classifier" in done.stdout or "12 of 13 right" in done.stdout


@posix
def test_a_closed_stream_does_not_lend_its_number_to_a_file_of_a_package(tmp_path: Path) -> None:
    done = shell("<&- >&- 2>&-", ["init", str(tmp_path / "p.ortpackage")])
    assert done.returncode == 0
    document = json.loads((tmp_path / "p.ortpackage" / "manifest.json").read_text("utf-8"))
    assert isinstance(document, dict)


@posix
def test_characters_that_the_encoding_lacks_are_escaped(tmp_path: Path) -> None:
    shell("", ["init", str(tmp_path / "p.ortpackage"), "--name", "größe"])
    text = shell("", ["inspect", str(tmp_path / "p.ortpackage")], PYTHONIOENCODING="ascii")
    assert text.returncode == 0
    assert "gr\\xf6\\xdfe" in text.stdout
    structured = shell(
        "", ["inspect", str(tmp_path / "p.ortpackage"), "--json"], PYTHONIOENCODING="ascii"
    )
    assert json.loads(structured.stdout)["name"] == "größe"
