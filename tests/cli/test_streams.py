"""Standard output full, closed, gone or of another encoding: commands end as documented."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from ortpkg.cli.app import COMMANDS as ALL_COMMANDS
from tests.cli.conftest import DIGITS

posix = pytest.mark.skipif(os.name != "posix", reason="a POSIX shell and its devices")

RUN = "run PKG --backend embedded"
PRINTING = ("--help", "--version", "inspect PKG", "select PKG --json", RUN, "explain")
COMMANDS = pytest.mark.parametrize("line", PRINTING)

#: An interpreter writes what it buffers when it ends, and ends with 120 where that fails. With
#: PYTHONUNBUFFERED nothing is left to be written then, so tests of streams run with it and without.
BUFFERING = pytest.mark.parametrize("unbuffered", [None, "1"], ids=["buffered", "unbuffered"])
#: Python's own word where its last flush fails, whatever the exit code is.
FAILED_AT_EXIT = re.compile("Exception ignored|lost sys.std")
#: Ways of standard output and error, and what becomes of a command that prints its data there.
STREAMS = {
    ">/dev/full": 2,
    ">&-": 2,
    "2>/dev/full": 0,
    "2>&-": 0,
    ">/dev/full 2>/dev/full": 2,
    ">&- 2>&-": 2,
    ">/dev/full 2>&-": 2,
    ">&- 2>/dev/full": 2,
}


@pytest.fixture
def words(line: str, few_digits: Path) -> list[str]:
    """The words of a command line, with a package in the place of PKG."""
    return [str(few_digits) if word == "PKG" else word for word in line.split()]


def shell(
    redirection: str, words: list[str], environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs ``ortpkg WORD...`` with its streams redirected as a shell does it."""
    command = ["sh", "-c", f'exec "$0" -m ortpkg "$@" {redirection}', sys.executable, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def with_buffering(unbuffered: str | None) -> dict[str, str]:
    """Return this process' environment with PYTHONUNBUFFERED set to ``unbuffered``, or unset."""
    environment = {name: os.environ[name] for name in os.environ if name != "PYTHONUNBUFFERED"}
    return environment if unbuffered is None else {**environment, "PYTHONUNBUFFERED": unbuffered}


@contextmanager
def unwritable(kind: str) -> Iterator[int]:
    """Yield a descriptor of a full device, or of a pipe that nobody reads any more."""
    if kind == "full":
        number = os.open("/dev/full", os.O_WRONLY)
    else:
        read, number = os.pipe()
        os.close(read)
    try:
        yield number
    finally:
        os.close(number)


def exit_code(words: list[str], unbuffered: str | None, **streams: str) -> int:
    """Run ``ortpkg WORD...`` with each stream named full, gone or dropped; return its exit code."""
    with ExitStack() as stack:
        numbers = {
            name: subprocess.DEVNULL if kind == "dropped" else stack.enter_context(unwritable(kind))
            for name, kind in {"stdout": "dropped", "stderr": "dropped", **streams}.items()
        }
        return subprocess.run(
            [sys.executable, "-m", "ortpkg", *words],
            stdin=subprocess.DEVNULL,
            stdout=numbers["stdout"],
            stderr=numbers["stderr"],
            env=with_buffering(unbuffered),
            check=False,
        ).returncode


@pytest.mark.sampled(5)
@posix
@BUFFERING
@pytest.mark.parametrize("redirection", STREAMS)
@pytest.mark.parametrize("line", [RUN, "nonsense", "--version"])
def test_streams_in_every_state_decide_the_exit_code(
    words: list[str], redirection: str, unbuffered: str | None
) -> None:
    done = shell(redirection, words, with_buffering(unbuffered))
    assert done.returncode == (2 if words == ["nonsense"] else STREAMS[redirection])
    assert not FAILED_AT_EXIT.search(done.stderr)


@pytest.mark.sampled(3)
@posix
@BUFFERING
@pytest.mark.usefixtures("warm_processes")
@pytest.mark.parametrize("command", ALL_COMMANDS)
def test_every_command_ends_as_documented_where_its_streams_take_nothing(
    command: str, unbuffered: str | None
) -> None:
    assert exit_code([command, "--help"], unbuffered, stdout="gone", stderr="gone") == 0
    assert exit_code([command, "--no-such-option"], unbuffered, stderr="full") == 2


@posix
@BUFFERING
@pytest.mark.usefixtures("warm_processes")
def test_a_record_of_decisions_that_cannot_be_written_is_said_of_standard_output(
    unbuffered: str | None,
) -> None:
    words = ["select", str(DIGITS), "--log-json", "-"]
    assert exit_code(words, unbuffered, stdout="full") == 2


@pytest.mark.skipif(sys.platform != "linux", reason="the size of a pipe is set as on Linux")
@BUFFERING
@pytest.mark.usefixtures("warm_processes")
def test_a_pipe_that_does_not_block_gets_all(unbuffered: str | None) -> None:
    read, write = os.pipe()
    import fcntl  # of POSIX alone

    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)  # a tenth of what the command prints
    os.set_blocking(write, False)
    command = subprocess.Popen(
        [sys.executable, "-m", "ortpkg", "explain", "--json"],
        stdout=write,
        stderr=subprocess.PIPE,
        env=with_buffering(unbuffered),
    )
    while select.select([], [write], [], 0)[1] and command.poll() is None:
        time.sleep(0.01)  # until it is full
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as reader:
        rules = json.loads(reader.read())["rules"]
    assert (command.communicate()[1], command.returncode) == (b"", 0)
    assert len(rules) > 90


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


@pytest.mark.sampled(2)
@posix
@BUFFERING
@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full"])
@pytest.mark.parametrize("line", [RUN, "select PKG"])
def test_data_does_not_need_standard_error(
    words: list[str], redirection: str, unbuffered: str | None
) -> None:
    done = shell(redirection, words, with_buffering(unbuffered))
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
    ascii_alone = {**os.environ, "PYTHONIOENCODING": "ascii"}
    text = shell("", ["inspect", str(tmp_path / "p.ortpackage")], ascii_alone)
    assert text.returncode == 0
    assert "gr\\xf6\\xdfe" in text.stdout
    structured = shell("", ["inspect", str(tmp_path / "p.ortpackage"), "--json"], ascii_alone)
    assert json.loads(structured.stdout)["name"] == "größe"
