"""Handlers that the worker tests run in children."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable

from ortpkg.foundations.isolation.worker import Message


def make(greeting: str) -> Callable[[Message], Message]:
    """A handler that does what the request's action says."""
    print("noise on standard output")

    def answer(request: Message) -> Message:
        action = request.header["action"]
        if action == "greet":
            return Message(
                header={"said": f"{greeting}, {request.header['name']}"},
                buffers=request.buffers[::-1],
            )
        if action == "raise":
            raise LookupError("no such thing")
        if action == "sleep":
            time.sleep(600)
        if action == "print and exit":
            print("last words", file=sys.stderr, flush=True)
            os._exit(3)
        if action == "crash":
            ctypes.string_at(0)
        return Message(header={"pid": os.getpid()})

    return answer


def fail() -> Callable[[Message], Message]:
    """Fails where the handler is to be made."""
    raise ValueError("there is no handler")
