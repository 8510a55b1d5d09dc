"""``python -m ortpkg`` and the ``ortpkg`` command.

An interrupt ends the process with "cancelled" and exit code 130, also while modules load.
"""

from __future__ import annotations

import gc
import os
import sys

from ortpkg.cli import interrupts

_CANCELLED = 130


def main() -> None:
    """Runs the command line with the arguments of this process, and ends it."""
    interrupts.watch()
    is_said = False
    try:
        code = _run()
        is_said = code == _CANCELLED
        interrupts.ignore()
    except BaseException as error:
        # whatever a module that was interrupted while it loads has made of it
        if not (isinstance(error, KeyboardInterrupt) or interrupts.happened()):
            raise
        interrupts.ignore()
        code = _CANCELLED
    if code != _CANCELLED and not interrupts.happened():
        sys.exit(code)
    if not is_said:
        _say("cancelled")
    # at once: threads that still compute are not waited for, and no library complains
    os._exit(_CANCELLED)


def _run() -> int:
    gc.disable()
    from ortpkg.cli.app import run  # typer takes 100 ms, in which an interrupt can come

    code = run(sys.argv[1:], when_loaded=_keep_modules)
    gc.freeze()  # the process ends: nothing that is left has to be looked through
    return code


def _keep_modules() -> None:
    """Begins to look for garbage, and never among the modules: that takes a tenth of a command."""
    gc.freeze()
    gc.enable()


def _say(text: str) -> None:
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        return  # standard error is full, gone or closed


if __name__ == "__main__":
    main()
