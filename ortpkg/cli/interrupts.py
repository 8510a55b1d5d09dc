"""Whether the user pressed Ctrl-C, which some libraries turn into errors of their own.

Loads nothing.
"""

from __future__ import annotations

import os

# what signal wraps in enumerations, which take 8 ms to load, in which an interrupt would be a
# traceback
try:
    import _signal as signal  # type: ignore[import-not-found]
except ImportError:
    import signal

TYPE_CHECKING = False  # as type checkers know it
if TYPE_CHECKING:
    from types import FrameType

_CANCELLED = 130


class _Interrupts:
    """Of this process."""

    happened = False


def end_at_once() -> None:
    """From now on an interrupt ends the process with "cancelled": nothing has been done yet that
    could be half-done.

    Where somebody else hears interrupts (a program that embeds ours), or this is not the main
    thread, nothing changes.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        try:
            signal.signal(signal.SIGINT, _end)
        except ValueError:
            return  # not the main thread


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
    """What was asked for is done: from now on, interrupts, and one that came a moment ago, change
    nothing.

    Where somebody else hears interrupts, nothing changes.
    """
    if signal.getsignal(signal.SIGINT) is _note:
        ignore()
        _Interrupts.happened = False


def happened() -> bool:
    """Whether one came, even if a library caught it: a module interrupted while it loads "cannot be
    imported".
    """
    return _Interrupts.happened


def _end(_signal: int, _frame: FrameType | None) -> None:
    try:
        os.write(2, b"cancelled\n")
    finally:
        os._exit(_CANCELLED)


def _note(_signal: int, _frame: FrameType | None) -> None:
    _Interrupts.happened = True
    raise KeyboardInterrupt
