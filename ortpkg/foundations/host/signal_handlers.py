"""Exceptions that a program's signal handlers raise in the middle of our work.

A handler runs between two instructions of the main thread, so what it raises looks like an error of
whatever was computed then. It is the program's own (``sys.exit()`` at SIGTERM, a deadline by
SIGALRM), and has to reach the program as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import CO_VARARGS
from types import FrameType
from typing import TypeVar

ResultT = TypeVar("ResultT")


def call_with_handlers_errors(call: Callable[[], ResultT]) -> ResultT:
    """Return ``call()``; raise an exception of a signal handler meanwhile as it was raised.

    Also if another error was raised from that exception.
    """
    try:
        return call()
    except Exception as error:
        handlers_error = raised_by_signal_handler(error)
        if handlers_error is None or handlers_error is error:
            raise
    raise handlers_error


def pass_on_handlers_error(error: BaseException) -> None:
    """Raise ``error``, or the error it was raised from, if a signal handler raised that.

    Meant for ``except`` blocks that would continue, or raise another error from it.
    """
    if (handlers_error := raised_by_signal_handler(error)) is not None:
        raise handlers_error


def raised_by_signal_handler(error: BaseException) -> BaseException | None:
    """Return ``error``, or the error it was raised from, if a signal handler raised that.

    None if no handler was involved.
    """
    visited: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in visited:
        if _passes_a_handler(current):
            return current
        visited.add(id(current))
        current = current.__cause__
    return None


def _passes_a_handler(error: BaseException) -> bool:
    """Return True if a function in the traceback was called with its caller's frame.

    Only the interpreter does that: a handler gets the frame that the signal interrupts.
    """
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        if _takes(traceback.tb_next.tb_frame, traceback.tb_frame):
            return True
        traceback = traceback.tb_next
    return False


def _takes(callee: FrameType, caller: FrameType) -> bool:
    """Return True if one of the callee's positional arguments is the caller's frame."""
    code = callee.f_code
    if code.co_argcount < 2 and not code.co_flags & CO_VARARGS:
        return False
    named = code.co_argcount + code.co_kwonlyargcount
    variables = callee.f_locals
    arguments = [variables.get(name) for name in code.co_varnames[: code.co_argcount]]
    if code.co_flags & CO_VARARGS:
        varargs = variables.get(code.co_varnames[named])
        arguments += varargs if isinstance(varargs, tuple) else ()
    return any(value is caller for value in arguments)
