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
    """Run the command line with the arguments of this process, and end the process."""
    interrupts.watch()
    is_reported = False
    try:
        code = _run()
        is_reported = code == _CANCELLED
        interrupts.ignore()
    except BaseException as error:
        # A module that was interrupted while it loads may raise anything.
        if not (isinstance(error, KeyboardInterrupt) or interrupts.happened()):
            raise
        interrupts.ignore()
        code = _CANCELLED
    if code != _CANCELLED and not interrupts.happened():
        sys.exit(code)
    if not is_reported:
        _say("cancelled")
    # At once: running threads are not waited for, and no library complains.
    os._exit(_CANCELLED)


def _run() -> int:
    gc.disable()
    from ortpkg.cli.app import run  # typer takes 100 ms, in which an interrupt can come

    code = run(sys.argv[1:], when_loaded=_keep_modules)
    gc.freeze()  # the process ends, so nothing needs to be collected
    return code


def _keep_modules() -> None:
    """Enable garbage collection, except for loaded modules.

    They would take a tenth of a command.
    """
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
