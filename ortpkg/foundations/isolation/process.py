"""Child processes of this interpreter: start, end and exit reasons."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from ortpkg.foundations.errors import quoted
from ortpkg.foundations.host.descendants import descendants_of

#: Variable with the interpreter of child processes.
PYTHON_VARIABLE = "ORTPKG_PYTHON"
#: argv: this text, the directory of the package, the module whose ``main`` to call, and its own
#: arguments.
_BOOTSTRAP = (
    "import sys; sys.path.append(sys.argv[1]); from importlib import import_module;"
    " import_module(sys.argv[2]).main()"
)


def start_process(
    module: str, *arguments: str, variables: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a child that calls ``main`` of our ``module``.

    Its standard streams are unbuffered pipes. It is started by ``subprocess`` with ``-P`` (no
    module is imported from the current directory), never by multiprocessing's spawn, which would
    import the caller's main module again. On POSIX it has its own session, so that a terminal's
    Ctrl-C goes to its parent only. ``ORTPKG_PYTHON`` names another interpreter, for programs that
    embed or freeze Python.

    Args:
        variables: Variables to set in its environment.

    Raises:
        OSError: It cannot be started; the message names it.
    """
    try:
        return subprocess.Popen(
            [
                interpreter(),
                "-P",
                "-c",
                _BOOTSTRAP,
                str(Path(__file__).parents[3]),
                module,
                *arguments,
            ],
            env={**os.environ, **(variables or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=os.name == "posix",
            bufsize=0,
        )
    except OSError as error:
        source = f"{PYTHON_VARIABLE} is " if os.environ.get(PYTHON_VARIABLE) else ""
        raise OSError(
            error.errno, f"{source}{quoted(interpreter())}: {error.strerror or error}"
        ) from error


def interpreter() -> str:
    """Return the path of the Python that children run."""
    return os.environ.get(PYTHON_VARIABLE) or sys.executable


def end_process(child: subprocess.Popen[bytes]) -> None:
    """Kill and await a child that has not been waited for, so that its id is still its own.

    On POSIX its whole session is killed, on Linux also what it started in other sessions; elsewhere
    those notice by themselves that it has ended. On Windows only the child is killed.
    """
    if child.returncode is not None:
        return
    if os.name == "posix":
        below = descendants_of(child.pid)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        for pid in below:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
    else:
        child.kill()
    child.wait()


def exit_reason(status: int) -> str:
    """Return how a child with that return code ended, e.g. "it was ended by SIGSEGV"."""
    if status >= 0:
        # Windows exception codes are usually shown in hexadecimal.
        shown = hex(status) if status > 255 else str(status)
        return f"it ended with status {shown}"
    try:
        return f"it was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"it was ended by signal {-status}"


def last_words(errors: str) -> str:
    """Return the last line that a child wrote to standard error, or "".

    It is the end of a sentence.
    """
    lines = [line for line in errors.splitlines() if line.strip()]
    return f"; its last words: {quoted(lines[-1].strip())}" if lines else ""
