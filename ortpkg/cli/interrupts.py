"""Record of Ctrl-C, which some libraries convert to errors of their own.

An extension module that is interrupted during its initialization may be left incomplete and crash
the process, as onnx's does. So an interrupt waits until no extension module is being initialized,
for some seconds at most.
"""

from __future__ import annotations

import _thread
import signal
import threading
from types import FrameType

#: Interval in which a waiting interrupt is repeated, in seconds, and most repetitions.
_MOMENT_S = 0.01
_MOST_MOMENTS = 500
#: Functions of Python's importlib that must not be interrupted: two initialize an extension module;
#: what is raised in the third one, the end of a lock, is printed and ignored.
_UNINTERRUPTIBLE = frozenset(
    {
        "ExtensionFileLoader.create_module",
        "ExtensionFileLoader.exec_module",
        "_get_module_lock.<locals>.cb",
    }
)


class _Interrupts:
    """Interrupts of this process."""

    happened = False
    moments_waited = 0


def watch() -> None:
    """Record interrupts from now on.

    If they are ignored (a background job of a shell), they stay ignored.
    """
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _note)


def ignore() -> None:
    """Ignore interrupts from now on, because the rest cannot be interrupted."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def too_late() -> None:
    """Ignore interrupts from now on, and one of a moment ago, because the work is done.

    Nothing changes if somebody else handles interrupts.
    """
    if signal.getsignal(signal.SIGINT) is _note:
        ignore()
        _Interrupts.happened = False


def happened() -> bool:
    """Return True if there was an interrupt, even if a library reported it as an import error."""
    return _Interrupts.happened


def _note(_signal: int, frame: FrameType | None) -> None:
    _Interrupts.happened = True
    if not _is_uninterruptible(frame) or _Interrupts.moments_waited == _MOST_MOMENTS:
        raise KeyboardInterrupt
    _Interrupts.moments_waited += 1
    again = threading.Timer(_MOMENT_S, _thread.interrupt_main)
    again.daemon = True
    again.start()


def _is_uninterruptible(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_qualname in _UNINTERRUPTIBLE:
            return True
        frame = frame.f_back
    return False
