"""``python -m ortpkg`` and the ``ortpkg`` command.

An interrupt ends the process with "cancelled" and exit code 130 from the first line on: what is loaded before the
command line is watched over is what Python itself loads, and two modules that load nothing.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from ortpkg.cli import interrupts

_CANCELLED = 130


def main() -> None:
    """Runs the command line with the arguments of this process, and ends it."""
    code: int | None = None
    is_said = False
    while True:
        try:
            if code is None:
                interrupts.watch()
                code = _run()
                is_said = code == _CANCELLED
            interrupts.ignore()
            break
        except BaseException as error:
            if not (isinstance(error, KeyboardInterrupt) or interrupts.happened()):
                raise
            code = _CANCELLED  # whatever a module that was interrupted while it loads has made of it
    if code != _CANCELLED and not interrupts.happened():
        sys.exit(code)
    if not is_said:
        _say("cancelled")
    os._exit(_CANCELLED)  # at once: threads that still compute are not waited for, and no library complains


def _run() -> int:
    from ortpkg.cli.app import run  # typer takes 100 ms, in which an interrupt can come

    return run(sys.argv[1:])


def _say(text: str) -> None:
    with suppress(OSError, ValueError, AttributeError):  # standard error is full, gone or closed
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


if __name__ == "__main__":
    main()
