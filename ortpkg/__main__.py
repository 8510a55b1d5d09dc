"""``python -m ortpkg`` and the ``ortpkg`` command.

An interrupt ends the process with "cancelled" and exit code 130 from the first line on: what is
loaded before that is what Python itself loads, and modules of ours that load nothing. Importing
this module is starting the program.
"""

from __future__ import annotations

from ortpkg.cli import interrupts

interrupts.end_at_once()

import os  # noqa: E402  # hears interrupts already, as all that follows
import sys  # noqa: E402

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
            code = (
                _CANCELLED  # whatever a module that was interrupted while it loads has made of it
            )
    if code != _CANCELLED and not interrupts.happened():
        sys.exit(code)
    if not is_said:
        _say("cancelled")
    # at once: threads that still compute are not waited for, and no library complains
    os._exit(_CANCELLED)


def _run() -> int:
    from ortpkg.cli.app import run  # typer takes 100 ms, in which an interrupt can come

    return run(sys.argv[1:])


def _say(text: str) -> None:
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        return  # standard error is full, gone or closed


if __name__ == "__main__":
    main()
