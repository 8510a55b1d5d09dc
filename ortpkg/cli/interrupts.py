"""Whether the user pressed Ctrl-C, which some libraries turn into errors of their own.

An extension module that is interrupted while it begins may leave itself half-made and crash the
process: onnx's does. So an interrupt waits until no extension module begins any more, for some
seconds at most.
"""

from __future__ import annotations

import _thread
import signal
import threading
from types import FrameType

#: How soon an interrupt that had to wait comes again, and how often it waits at most.
_MOMENT_S = 0.01
_MOST_MOMENTS = 500
#: Functions of Python's importlib: two run the beginning of an extension module, and what is raised
#: in the third one, the end of a lock, is printed and forgotten.
_DEAF = frozenset(
    {
        "ExtensionFileLoader.create_module",
        "ExtensionFileLoader.exec_module",
        "_get_module_lock.<locals>.cb",
    }
)


class _Interrupts:
    """Of this process."""

    happened = False
    moments_waited = 0


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


def _note(_signal: int, frame: FrameType | None) -> None:
    _Interrupts.happened = True
    if not _is_deaf(frame) or _Interrupts.moments_waited == _MOST_MOMENTS:
        raise KeyboardInterrupt
    _Interrupts.moments_waited += 1
    again = threading.Timer(_MOMENT_S, _thread.interrupt_main)
    again.daemon = True
    again.start()


def _is_deaf(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_qualname in _DEAF:
            return True
        frame = frame.f_back
    return False
