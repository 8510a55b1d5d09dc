"""Keeps the stack of the calling thread's signal handlers while a library's code runs.

Python's handlers run on a thread's alternate signal stack (sigaltstack(2)) if it has one. A library
that sets one and frees its memory later leaves the thread with a stack that is gone: the next
signal, Ctrl-C say, ends the process with SIGSEGV.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_SS_DISABLE = 2


class _Stack(ctypes.Structure):
    """``stack_t`` of Linux."""

    _fields_ = (
        ("address", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("nbytes", ctypes.c_size_t),
    )


@contextmanager
def keep_signal_stack() -> Iterator[None]:
    """Restore the calling thread's alternate signal stack on the way out; Linux only."""
    if sys.platform != "linux":
        yield
        return
    original = _signal_stack()
    try:
        yield
    finally:
        if _libc().sigaltstack(ctypes.byref(original), None) != 0:
            # It is too small by now: AMX, once requested, enlarges what a signal saves on it.
            # Without an alternate stack, handlers run on the thread's own stack.
            _libc().sigaltstack(ctypes.byref(_Stack(flags=_SS_DISABLE)), None)


def _signal_stack() -> _Stack:
    stack = _Stack()
    _libc().sigaltstack(None, ctypes.byref(stack))
    return stack


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)
