"""Whether the user pressed Ctrl-C, which some libraries turn into errors of their own."""

from __future__ import annotations

import signal
from types import FrameType


class _Interrupts:
    """Of this process."""

    happened = False


def watch() -> None:
    """From now on interrupts are noted.

    Where they are ignored (a background job of a shell), they stay ignored.
    """
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _note)


def ignore() -> None:
    """What is left to be done cannot be interrupted any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def too_late() -> None:
    """Ignores interrupts from now on, and one of a moment ago: what was asked for is done.

    Where somebody else hears interrupts, nothing changes.
    """
    if signal.getsignal(signal.SIGINT) is _note:
        ignore()
        _Interrupts.happened = False


def happened() -> bool:
    """Whether one came, even if a library took it for a module that "cannot be imported"."""
    return _Interrupts.happened


def _note(_signal: int, _frame: FrameType | None) -> None:
    _Interrupts.happened = True
    raise KeyboardInterrupt
